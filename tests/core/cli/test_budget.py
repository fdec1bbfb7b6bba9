"""A run with a budget: every entry gets a number, and tables, pages and commands say which tasks were left out."""

import json
from pathlib import Path

import pytest
from tests.leaderboard.browsing import words_of

from imharness.components.registry import installed
from imharness.documents.stored import read_leaderboard
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.running.budget import within_budget
from imharness.running.publishing import TablesMeanwhile
from imharness.running.schedule.state import run_states
from imharness.running.watching import first_sets
from imharness_leaderboard.pages import Built, build_site

METRICS = ("l2", "mse", "mae")
BUDGET = "15s"
WORDS = [
    "run",
    "--track",
    "perceptual",
    "--limit",
    "3",
    "--device",
    "cpu",
    "--workers",
    "0",
    *("--dataset", "severity-ladder[severities=[2,3,4],size=64]", "--dataset", "distorted-pairs[size=64]"),
    *(word for name in METRICS for word in ("--metric", name)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, harness_here) -> Path:
    """Return a folder with a store and a site after a run whose budget left out tasks.

    The store is new, so nothing is known of how long tasks take, and each counts as one second of the budget.
    """
    working_folder = tmp_path_factory.mktemp("budget")
    result = harness_here(*WORDS, "--budget", BUDGET, cwd=working_folder)
    assert result.returncode == 0, result.stderr
    assert "tasks were left out by the budget; a larger one continues where this one ended" in result.stdout
    return working_folder


def labels(folder: Path) -> dict[str, int]:
    """How many numbers each row of the ranking has."""
    leaderboard = read_leaderboard(Store(folder / "store"), "harness/perceptual")
    assert leaderboard is not None
    return {
        row.label: sum(value.value is not None for value in row.values.values()) for row in leaderboard.tables[0].rows
    }


def test_every_entry_stands_in_the_table(folder: Path) -> None:
    assert labels(folder).keys() == {f"harness/{name}" for name in METRICS}
    assert min(labels(folder).values()) > 0


def test_what_was_left_out_is_on_the_pages_and_said_with_the_tables(folder: Path, harness_here) -> None:
    leaderboard = read_leaderboard(Store(folder / "store"), "harness/perceptual")
    assert leaderboard is not None
    assert leaderboard.left_out
    output = harness_here("results", "rank", "--store", "store", cwd=folder).stdout
    for gap in leaderboard.left_out:
        assert f"left out: {gap.what} did not fit into the budget of {BUDGET}" in output
    for page in ("index.html", "perceptual.html"):
        words = words_of((folder / "site" / page).read_text())
        assert (
            f"Left out by a budget: {'; '.join(gap.what for gap in leaderboard.left_out)}. The numbers cover only"
            in words
        )


def test_a_later_run_without_a_budget_leaves_nothing_out(folder: Path, harness_here) -> None:
    before = labels(folder)
    assert harness_here(*WORDS, cwd=folder).returncode == 0
    leaderboard = read_leaderboard(Store(folder / "store"), "harness/perceptual")
    assert leaderboard is not None
    assert not leaderboard.left_out
    assert sum(labels(folder).values()) > sum(before.values())
    assert "Left out by a budget" not in (folder / "site" / "index.html").read_text()


@pytest.mark.parametrize("track", ["harness/iqa", "harness/perceptual", "harness/reconstruction"])
def test_first_tables_do_not_use_up_what_gives_every_entry_a_number(track: str) -> None:
    """The smallest budget that gives every entry a task does not hold all tasks of the first tables.

    Each task takes one second. `enough` is that budget: it must lie below a fifth of all tasks and 30 more.
    """
    profile = load_profile("embedded")
    graph = plan_track(track, profile, installed())
    first, took = first_sets([graph], profile)[track], dict.fromkeys(graph.tasks, 1.0)

    def entries(keys: set[str]) -> set[str]:
        named = (graph.tasks[key].spec.named().items() for key in keys)
        return {ref.label for components in named for role, ref in components if role != "dataset"}

    whole = entries(set(graph.tasks))
    steps = range(5, len(took), max(1, len(took) // 200))
    enough = next(s for s in steps if entries(within_budget(graph.tasks, took, s, first)) == whole)
    assert enough < 0.2 * len(took) + 30
    selected = within_budget(graph.tasks, took, enough, first)
    assert first & selected < first


def test_progress_as_json_is_json_alone_and_ends_with_the_page(
    folder: Path, harness_here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing was published while the run went on: until its pages are written it has not finished."""
    seen = list[str]()

    def built_late(address: str, site: Path) -> Built:
        (site / "index.html").unlink()
        seen.append(run_states(Store(folder / "store"), pytest.fail)[0].state)
        return build_site(address, site)

    monkeypatch.setattr(TablesMeanwhile, "offer", lambda self, outcome, left_s: None)
    monkeypatch.setattr("imharness_leaderboard.pages.build_site", built_late)
    result = harness_here(*WORDS, "--fresh", "--progress", "json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "were left out" not in result.stdout
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert lines[-1]["state"] == "finished"
    assert (folder / lines[-1]["page"]).is_file()
    assert lines[-1]["page"] == "site/index.html"
    assert [line["state"] for line in lines[:-1]] == ["running"] * (len(lines) - 1)
    assert seen == ["running"]
    assert run_states(Store(folder / "store"), pytest.fail)[0].page == lines[-1]["page"]
