"""The report of a submission says what the rankings say of its entries."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.sandbox.test_blind_inputs import report

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Place
from imharness.results.store import Store
from imharness_submissions.ledger import Ledger
from imharness_submissions.recording import flagged_in, write_ledger
from imharness_submissions.report import markdown


@pytest.fixture(autouse=True)
def tools() -> None:
    """No sandbox is needed."""


def ranked(void: str = "", **flags: tuple[str, ...]) -> Leaderboard:
    """Return a leaderboard with entries of the owner acme, name -> why they are flagged."""
    places = {
        f"model + acme/{name}": Place(complete=True, gate="passes", front=True, broken_by={}, flags=lines)
        for name, lines in flags.items()
    }
    return Leaderboard.model_construct(rankings=(SimpleNamespace(void=void, places=places),))


def test_a_flag_of_a_ranking_stands_in_the_report_and_is_no_decision(tmp_path: Path) -> None:
    leaderboard = ranked(mine=("a look-up", "flagged: what an earlier run found"), other=("a look-up",), fine=())
    lines = tuple(flagged_in([leaderboard], ["acme/mine", "acme/fine"]))
    assert lines == ("model + acme/mine: a look-up",)
    flagged = report(ranking=lines)
    assert flagged.flags() == lines
    assert "## x: flagged" in markdown(flagged)
    assert report(ranking=()).flags() == ()
    manifest = SimpleNamespace(model_dump=lambda mode: {}, package=SimpleNamespace(file=""))
    run = SimpleNamespace(
        store=Store(tmp_path),
        name="mine",
        submission=manifest,
        opened=SimpleNamespace(ids=("acme/mine",)),
        lock=(),
        broken=False,
    )
    write_ledger(run, flagged)
    assert [line.decision for line in Ledger(tmp_path).lines()] == ["added"]


def test_where_nobody_can_be_judged_no_entry_is_at_fault() -> None:
    assert list(flagged_in([ranked("nothing converged", mine=("nothing converged",))], ["acme/mine"])) == []
