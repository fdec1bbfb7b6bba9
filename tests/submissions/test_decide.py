"""What a maintainer decides by the command line, from the refusal to the table that changes."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.submissions.conftest import MakeSubmission
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


@pytest.mark.parametrize("baselines", [True, False], ids=["beside the baselines", "alone in the store"])
def test_an_accepted_metric_decides_and_a_withdrawn_one_no_more(
    submission: MakeSubmission, tmp_path: Path, profile: Path, no_site: None, baselines: bool
) -> None:
    store = tmp_path / "store"
    place = ("--store", store, "--site", tmp_path / "site")
    where = (*place, "--profile", profile, "--device", "cpu", "--limit", "12", "--workers", "0")
    folder = submission("../submissions/tracks/contrast", entry("good/contrast", "metric"))
    refused = told("submissions", "decide", folder.name, "accepted", "--reason", "read", *place)
    assert isinstance(refused.exception, UsageError)
    assert f"the ledger has no submission '{folder.name}'" in str(refused.exception)
    assert told("submissions", "run", folder, *where).exit_code == 0
    if baselines:
        assert told("run", "--all", *where, "--progress", "none").exit_code == 0
    before = board_of(store, "iqa")
    assert f"{SHOWN}: good/contrast (metric)" in notes(before)
    for decision, by in (("accepted", {"good/contrast"}), ("flagged", set()), ("accepted", {"good/contrast"})):
        done = told("submissions", "decide", folder.name, decision, "--reason", "read its code", *place)
        assert done.exit_code == 0, done.output
        assert done.output.splitlines()[-1] == f"{folder.name}: {decision}"
        found = board_of(store, "iqa")
        own = {"harness/embedded-cnn"} if baselines else set()
        assert {name for ranking in found.rankings[:1] for name in judged_by(found)} == own | by, ranking_of(found)
        assert (SHOWN in notes(found)) == (not by)
    gone = told("submissions", "decide", folder.name, "withdrawn", "--reason", "asked for", *place)
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


def test_a_defense_alone_in_a_store_is_accepted_and_the_board_says_what_it_lacks(
    submission: MakeSubmission, tmp_path: Path, profile: Path
) -> None:
    store = tmp_path / "store"
    place = ("--store", store, "--site", tmp_path / "site")
    where = (*place, "--profile", profile, "--device", "cpu", "--limit", "12", "--workers", "0")
    folder = submission("honest/median", entry("good/median"))
    assert told("submissions", "run", folder, *where).exit_code == 0
    done = told("submissions", "decide", folder.name, "accepted", "--reason", "read its code", *place)
    assert done.exit_code == 0, done.output
    (ranking,) = board_of(store, "iqa").rankings
    assert not ranking.winner
    assert "harness/none" in ranking.claim
    assert (tmp_path / "site" / "iqa.html").is_file()
