"""Profiles that packages bring as a whole, and folders that they find among the assets."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from imharness.components.registry import installed
from imharness.contracts.assets import place
from imharness.errors import UsageError
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile

WHOLE = 'name = "study"\ndescription = "A study."\n[tracks."acme/flips"]\nselect = { metric = ["*"] }\n'
STUDIES = {
    "kodak": "harness/iqa",
    "full-reference": "harness/iqa",
    "location30": "harness/membership",
    "cifar10": "harness/reconstruction",
    "cifar10-membership": "harness/membership",
    "orl": "harness/reconstruction",
    "lpips": "harness/perceptual",
}


def package(folder: Path, name: str, **profiles: str) -> EntryPoint:
    (folder / name / "profiles").mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    for stem, text in profiles.items():
        (folder / name / "profiles" / f"{stem}.toml").write_text(text)
    return EntryPoint(name, name, "imharness")


@pytest.fixture
def place_of_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_package_brings_a_whole_profile(place_of_packages: Path) -> None:
    points = [package(place_of_packages, "acme_one", study=WHOLE), package(place_of_packages, "acme_two")]
    profile = load_profile("study", points)
    assert (profile.name, list(profile.tracks)) == ("study", ["acme/flips"])
    assert dict(profile.origins) == {"acme/flips": "unknown"}


def test_a_profile_of_two_packages_is_refused_and_an_unknown_one_names_all(place_of_packages: Path) -> None:
    points = [package(place_of_packages, name, study=WHOLE) for name in ("acme_three", "acme_four")]
    with pytest.raises(UsageError, match="profile study: both unknown and unknown bring it"):
        load_profile("study", points)
    with pytest.raises(
        UsageError,
        match=r"Did you mean 'study'\? .*\.toml file, or one of: embedded, official, official-small, "
        r"paper, quick, study\.",
    ):
        load_profile("studi", points[:1])
    with pytest.raises(UsageError, match="no profile is called"):
        load_profile("../profiles/study", points[:1])


def test_a_part_without_global_facts_is_no_whole_profile(place_of_packages: Path) -> None:
    part = package(place_of_packages, "acme_five", study='[tracks."acme/flips"]\nselect = {}\n')
    with pytest.raises(UsageError, match=r"profile study: .*name"):
        load_profile("study", [part])


@pytest.mark.parametrize("study", STUDIES)
def test_the_studies_on_real_data_can_be_planned(study: str) -> None:
    profile = load_profile(study)
    assert list(profile.tracks) == [STUDIES[study]]
    graph = plan_track(STUDIES[study], profile, installed())
    assert len(graph.tasks) + len(graph.missing) > 50


def test_a_folder_is_looked_for_here_and_then_among_the_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path / "assets"))
    assert place("faces") == Path("faces")
    (tmp_path / "assets" / "faces").mkdir(parents=True)
    assert place("faces") == tmp_path / "assets" / "faces"
    (tmp_path / "faces").mkdir()
    assert place("faces") == Path("faces")
