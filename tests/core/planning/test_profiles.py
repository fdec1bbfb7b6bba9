"""Profiles of packages: whole ones, their parts and bases; and folders that are looked for among the assets."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from imharness.components.registry import installed
from imharness.contracts.assets import asset_path
from imharness.errors import UsageError
from imharness.papers.published import published_tables
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile

WHOLE = 'name = "study"\ndescription = "A study."\n[tracks."acme/flips"]\nselect = { metric = ["*"] }\n'
STUDIES = {  # profile of a study on real data -> its track
    "kodak": "harness/iqa",
    "full-reference": "harness/iqa",
    "location30": "harness/membership",
    "cifar10": "harness/reconstruction",
    "cifar10-membership": "harness/membership",
    "orl": "harness/reconstruction",
    "lpips": "harness/perceptual",
}


def package(folder: Path, name: str, **profiles: str) -> EntryPoint:
    """Write a package with profiles, name -> TOML, and return its entry point."""
    (folder / name / "profiles").mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    for stem, text in profiles.items():
        (folder / name / "profiles" / f"{stem}.toml").write_text(text)
    return EntryPoint(name, name, "imharness")


@pytest.fixture
def place_of_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder from which packages are imported."""
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


def test_tracks_come_in_the_order_of_the_packages_that_set_them_up(place_of_packages: Path) -> None:
    names = [f"acme_{letter}" for letter in "abcdefgh"]
    profile_texts = {name: f'[tracks."{name}/t"]\nselect = {{}}\n' for name in reversed(names)}
    points = [package(place_of_packages, name, quick=text) for name, text in profile_texts.items()]
    assert list(load_profile("quick", points).tracks) == [f"{name}/t" for name in names]


def test_a_part_without_global_facts_is_no_whole_profile(place_of_packages: Path) -> None:
    second_package = package(place_of_packages, "acme_five", study='[tracks."acme/flips"]\nselect = {}\n')
    with pytest.raises(UsageError, match=r"profile study: .*name"):
        load_profile("study", [second_package])


BASED = """
name = "{name}"
description = "A part of a study."
[tracks."acme/flips"]
base = "{base}"
select = {{ metric = ["one"] }}
options = {{ deep = {{ a = 2 }} }}
"""
WITH_OPTIONS = WHOLE + "options = { splits = 5, deep = { a = 1, b = 3 } }\n"


def test_a_profile_starts_from_another_of_its_package_and_says_what_differs(place_of_packages: Path) -> None:
    texts = {"study": WITH_OPTIONS + "parameters.x = { k = 1 }\n", "small": BASED.format(name="small", base="study")}
    profile = load_profile("small", [package(place_of_packages, "acme_six", **texts)])
    track = profile.tracks["acme/flips"]
    assert track.select == {"metric": ["one"]}
    assert track.options == {"splits": 5, "deep": {"a": 2, "b": 3}}
    assert track.parameters == {"x": {"k": 1}}


@pytest.mark.parametrize("base", ["nosuch", "small", "chained"])
def test_a_base_that_is_not_there_or_has_one_itself_is_refused(place_of_packages: Path, base: str) -> None:
    texts = {name: BASED.format(name=name, base=of) for name, of in (("small", base), ("chained", "study"))}
    point = package(place_of_packages, f"acme_{base}", study=WITH_OPTIONS, **texts)
    with pytest.raises(UsageError, match=rf"profile small: the base '{base}' of acme/flips is no profile"):
        load_profile("small", [point])


@pytest.mark.parametrize("name", ["song-mittal", "guardians-table-2", "semsim-tables", "lpips-2afc"])
def test_a_papers_profile_has_the_papers_components_with_the_options_of_the_profile_paper(name: str) -> None:
    ((track, track_profile),) = load_profile(name).tracks.items()
    whole = load_profile("paper").tracks[track]
    reduced = {"sensitivity_rows": 0, "by_epoch": 0}  # options of which no published table needs the numbers
    assert {k: v for k, v in track_profile.options.items() if k not in reduced} == {
        k: v for k, v in whole.options.items() if k not in reduced
    }
    tables = [table for table in published_tables() if name in table.profiles]
    assert tables
    assert {table.track for table in tables} == {track}
    assert all(table.selections[name] == {k: tuple(v) for k, v in track_profile.select.items()} for table in tables)


@pytest.mark.parametrize("study", STUDIES)
def test_the_studies_on_real_data_can_be_planned(study: str) -> None:
    profile = load_profile(study)
    assert list(profile.tracks) == [STUDIES[study]]
    graph = plan_track(STUDIES[study], profile, installed())
    assert len(graph.tasks) + len(graph.missing) > 50


def test_a_folder_is_looked_for_here_and_then_among_the_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path / "assets"))
    assert asset_path("faces") == Path("faces")
    (tmp_path / "assets" / "faces").mkdir(parents=True)
    assert asset_path("faces") == tmp_path / "assets" / "faces"


def test_a_folder_that_is_here_and_another_one_among_the_assets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path / "assets"))
    inside = tmp_path / "assets" / "faces"
    inside.mkdir(parents=True)
    (tmp_path / "faces").mkdir()
    with pytest.raises(UsageError, match=f"faces names {tmp_path}/faces, and {inside} among the assets; give the full"):
        asset_path("faces")
    assert asset_path(str(inside)) == inside
    assert asset_path(str(tmp_path / "faces")) == tmp_path / "faces"
    (tmp_path / "faces").rmdir()
    (tmp_path / "faces").symlink_to(inside)
    assert asset_path("faces").samefile(inside)
