"""A defense that stores the public images is excellent on them, ordinary on a secret split, and flagged on the site."""

import importlib.metadata
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
import torch
from tests.conftest import install

from imharness.components.loading import load_plugins
from imharness.components.registry import Registry, build_registry
from imharness.documents.entries import Standing
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.seasons import Season
from imharness.errors import UsageError
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.secret import digest_of
from imharness.ranking.entries import StoreEntries
from imharness.ranking.leaderboard import make_leaderboard
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness.running.merging import merged_sweep
from imharness_leaderboard.pages import build_site

ACCEPTED = {"light/brightness": (Standing(date="", decision="accepted", reason="its numbers are known"),)}
TRACK, SEED = "harness/iqa", "5eed" * 16
HOSTILE, HONEST, NONE = "acme/recogniser", ("acme/damper", "acme/idle"), "harness/none"
PART = TrackProfile(
    select={
        "dataset": ["acme/patterns"],
        "metric": ["light/brightness"],
        "attack": ["harness/ifgsm"],
        "defense": [NONE, HOSTILE, *HONEST],
    },
    options={"strengths": ["strong"], "shown_images": 1, "samples": 1},
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = install(tmp_path_factory.mktemp("packages"), "acme-truth")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        points = [
            point
            for distribution in importlib.metadata.distributions(path=[str(folder)])
            for point in distribution.entry_points
        ]
        yield build_registry(load_plugins([*importlib.metadata.entry_points(group="imharness"), *points]))


@dataclass(frozen=True)
class Ran:
    """A run: its store, its plan and its leaderboard."""

    folder: Path
    graph: Graph
    leaderboard: Leaderboard

    def worst(self) -> dict[str, float | None]:
        """Return the number of each entry under the worst attack."""
        table = next(table for table in self.leaderboard.tables if table.id == "ranking")
        return {row.label: row.values["worst"].value for row in table.rows}


def planned(registry: Registry, secret: str) -> Graph:
    return plan_track(TRACK, Profile(name="truth", description="", tracks={TRACK: PART}, secret=secret), registry)


def ran(folder: Path, registry: Registry, secret: str) -> Ran:
    """Run all tasks in a store, on the split of a secret seed (empty: the public one), and rank."""
    store, graph = Store(folder), planned(registry, secret)
    cache = BuildCache(registry, store, torch.device("cpu"), 16, secret=secret)
    records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
    assert [record.failure for record in records if record.failure] == []
    sweep = merged_sweep(
        store, graph, done=set(graph.tasks), failed={}, profile="truth", seed=0, limit=None, command="harness run"
    )
    store.save_sweep(sweep)
    return Ran(folder, graph, make_leaderboard(store, graph.track, sweep, StoreEntries(registry, standing=ACCEPTED)))


@pytest.fixture(scope="module")
def public(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return ran(tmp_path_factory.mktemp("public"), registry, "")


@pytest.fixture(scope="module")
def secret(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return ran(tmp_path_factory.mktemp("secret"), registry, SEED)


@pytest.fixture(scope="module")
def flagged(public: Ran, secret: Ran, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("flagged")
    build_site(public.folder, site, secret=secret.folder)
    return site


@pytest.fixture(scope="module")
def secret_site(secret: Ran, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("secret-site")
    build_site(secret.folder, site)
    return site


def ranking(site: Path) -> dict:
    leaderboards = json.loads((site / "data" / "results.json").read_text())["leaderboards"]
    (result,) = next(leaderboard for leaderboard in leaderboards if leaderboard["track"] == TRACK)["rankings"]
    return result


def test_it_is_excellent_on_public_images_and_ordinary_on_a_secret_split(public: Ran, secret: Ran) -> None:
    before, after = public.worst(), secret.worst()
    assert before[HOSTILE] == pytest.approx(0, abs=0.01)
    assert public.leaderboard.rankings[0].winner == ""
    assert [flag[:9] for flag in public.leaderboard.rankings[0].places[HOSTILE].flags] == ["a look-up"]
    for worst in (before, after):
        assert worst[NONE] > 10
        assert worst[NONE] == worst["acme/idle"] == pytest.approx(worst["acme/damper"], abs=1e-4)
    assert after[HOSTILE] == after[NONE]
    assert secret.leaderboard.rankings[0].winner == ""


def test_it_is_flagged_and_never_wins_and_honest_defenses_are_not(flagged: Path) -> None:
    result = ranking(flagged)
    assert [label for label, position in result["places"].items() if position["flags"]] == [HOSTILE]
    assert [flag for flag in result["places"][HOSTILE]["flags"] if "secret split" in flag]
    assert result["winner"] == ""
    assert HOSTILE not in result["may_be_best"]
    page = (flagged / "iqa.html").read_text()
    details = (flagged / "iqa" / "details" / "ranking-acme--recogniser.html").read_text()
    assert details.count("<dt>Flagged</dt>") == len(result["places"][HOSTILE]["flags"])
    assert "Secret split" not in page, "the leaderboard that is shown is of public images"


def test_without_the_other_leaderboard_only_the_look_up_is_flagged(public: Ran) -> None:
    assert [label for label, position in public.leaderboard.rankings[0].places.items() if position.flags] == [HOSTILE]


def test_leaderboards_are_compared_one_way_only(public: Ran, secret: Ran, tmp_path: Path) -> None:
    for displayed, other in ((secret, public), (public, public)):
        with pytest.raises(UsageError, match="secret split"):
            build_site(displayed.folder, tmp_path, secret=other.folder)


def test_the_site_says_secret_split_and_shows_none_of_its_images(secret_site: Path) -> None:
    assert "<strong>Secret split.</strong>" in (secret_site / "iqa.html").read_text()
    assert "secret split" in (secret_site / "index.html").read_text()
    assert {path.parent.name for path in secret_site.rglob("*.png")} <= {"guides"}


def single_numbers(site: Path) -> tuple[list[str], list[float]]:
    """Return the files of single images, and all numbers that single photographs add to a mean."""
    files = [file.name for pattern in ("*.f32", "*.f64", "*.vectors.json") for file in site.rglob(pattern)]
    places = ranking(site)["places"].values()
    return files, [
        number for position in places for gate in position["gate_numbers"] for number in gate["contributions"]
    ]


def test_numbers_of_single_images_wait_until_the_season_is_closed(
    public: Ran, secret: Ran, secret_site: Path, tmp_path: Path
) -> None:
    """From the score of a single image one could infer how the split turned and mirrored it."""
    assert single_numbers(secret_site) == ([], [])
    assert json.loads((secret_site / "data" / "comparisons.json").read_text()) == []
    row = next(row for table in secret.leaderboard.tables if table.id == "ranking" for row in table.rows)
    assert f"{row.number('worst'):.1f}" in (secret_site / "iqa.html").read_text()
    shutil.copytree(secret.folder, tmp_path / "store")
    day, split = date(2027, 1, 1), digest_of(SEED)
    season = Season(name="2027a", opened="", until=day, profile="truth", protocol={}, secret=split)
    for revealed in ("", SEED):
        Store(tmp_path / "store").replace("seasons/2027a.json", season.model_copy(update={"revealed": revealed}))
        build_site(tmp_path / "store", tmp_path / f"site{bool(revealed)}")
    assert single_numbers(tmp_path / "siteFalse") == ([], [])
    assert all(single_numbers(tmp_path / "siteTrue"))


def test_no_file_holds_the_seed(secret: Ran, secret_site: Path) -> None:
    files = [file for folder in (secret.folder, secret_site) for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 50
    assert [file for file in files if SEED.encode() in file.read_bytes()] == []


def test_tasks_of_different_splits_never_mix(registry: Registry, public: Ran, secret: Ran) -> None:
    graphs = [public.graph, secret.graph, planned(registry, "0dd5eed0" * 8)]
    assert len({graph.run_configuration for graph in graphs}) == 3
    assert len({key for graph in graphs for key in graph.tasks}) == sum(len(graph.tasks) for graph in graphs)
    assert planned(registry, SEED).tasks.keys() == secret.graph.tasks.keys()
    assert planned(registry, "").run_configuration == public.graph.run_configuration


def test_who_lacks_the_seed_computes_nothing(registry: Registry, secret: Ran, tmp_path: Path) -> None:
    key, task = next(iter(secret.graph.tasks.items()))
    for seed in ("", "0dd5eed0" * 8):
        record = run_task(
            BuildCache(registry, Store(tmp_path), torch.device("cpu"), 16, secret=seed),
            key,
            task.spec,
            lambda done, total: None,
        )
        assert record.status == "failed"
        assert "seed of the secret split" in record.failure.message
