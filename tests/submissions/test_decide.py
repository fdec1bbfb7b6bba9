"""What a maintainer decides by the command line, from the refusal to the table that changes."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.conftest import without_site
from tests.submissions.conftest import PROFILE, submission_in, unexamined
from tests.submissions.test_honest import board_of
from tests.submissions.test_run import entry

from imharness.cli import cli
from imharness.errors import UsageError
from imharness.results.boards import Board
from imharness_submissions.ledger import Ledger

SHOWN = "decide no place before a person accepts them"


def told(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def notes(board: Board) -> str:
    return " ".join(table.note for table in board.tables)


def judged_by(board: Board) -> set[str]:
    """Return the metrics by which the board ranks."""
    (ranking,) = board.rankings
    paired = next(own for own in board.comparisons if own.id == ranking.comparison)
    return {own.facets["metric"] for own in paired.conditions}


def words_of(root: Path) -> tuple[str | Path, ...]:
    return "--profile", root / "tiny.toml", "--device", "cpu", "--limit", "12", "--workers", "0"


@pytest.fixture(scope="module")
def shown(module_folder: Path) -> Path:
    """Return a folder with a store in which a metric was run that nobody has accepted."""
    (module_folder / "tiny.toml").write_text(PROFILE)
    folder = submission_in(module_folder, "../submissions/tracks/contrast", entry("good/contrast", "metric"))
    place = ("--store", module_folder / "store", "--site", module_folder / "site")
    with without_site(), unexamined():
        done = told("submissions", "run", folder, *place, *words_of(module_folder))
    assert done.exit_code == 0, done.output
    return module_folder


def test_who_is_not_in_the_ledger_is_not_decided_on(tmp_path: Path) -> None:
    place = ("--store", tmp_path / "store", "--site", tmp_path / "site")
    refused = told("submissions", "decide", "contrast", "accepted", "--reason", "read", *place)
    assert isinstance(refused.exception, UsageError)
    assert "the ledger has no submission 'contrast'" in str(refused.exception)


@pytest.mark.parametrize("baselines", [True, False], ids=["beside the baselines", "alone in the store"])
def test_an_accepted_metric_decides_and_a_withdrawn_one_no_more(
    shown: Path, tmp_path: Path, no_site: None, baselines: bool
) -> None:
    store = Path(shutil.copytree(shown / "store", tmp_path / "store"))
    place = ("--store", store, "--site", tmp_path / "site")
    if baselines:
        assert told("run", "--all", *place, *words_of(shown), "--progress", "none").exit_code == 0
    before = board_of(store, "iqa")
    assert f"{SHOWN}: good/contrast (metric)" in notes(before)
    for decision, by in (("accepted", {"good/contrast"}), ("flagged", set()), ("accepted", {"good/contrast"})):
        done = told("submissions", "decide", "contrast", decision, "--reason", "read its code", *place)
        assert done.exit_code == 0, done.output
        assert done.output.splitlines()[-1] == f"contrast: {decision}"
        found = board_of(store, "iqa")
        own = {"harness/embedded-cnn"} if baselines else set()
        assert {name for ranking in found.rankings[:1] for name in judged_by(found)} == own | by, ranking_of(found)
        assert (SHOWN in notes(found)) == (not by)
    gone = told("submissions", "decide", "contrast", "withdrawn", "--reason", "asked for", *place)
    assert gone.exit_code == 0, gone.output
    left = board_of(store, "iqa")
    assert "good/contrast" not in {row.label for table in left.tables for row in table.rows}
    assert [m.what for m in left.missing if "withdrawn" in m.reason] == ["good/contrast"]
    assert [line.decision for line in Ledger(store).lines()] == [
        "added",
        "accepted",
        "flagged",
        "accepted",
        "withdrawn",
    ]


def ranking_of(board: Board) -> str:
    return " ".join(ranking.claim for ranking in board.rankings)
