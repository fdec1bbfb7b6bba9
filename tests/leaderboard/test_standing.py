"""How a submitted entry stands, in the words of the tables."""

import pytest

from imharness.results.entries import Entry, Standing
from imharness_leaderboard.badges import badges_of
from imharness_leaderboard.entries import Result, standing_word
from imharness_leaderboard.rankings import RankingView

from .conftest import board
from .contested import FLIP, JPEG, report


@pytest.mark.parametrize(
    ("decisions", "word"),
    [
        ((), ""),
        (("added",), "submitted"),
        (("added", "reproduced"), "reproduced"),
        (("added", "not reproduced"), "not reproduced"),
        (("added", "flagged"), "flagged"),
        (("added", "flagged", "reproduced"), "flagged"),
        (("added", "flagged", "re-scored"), "submitted"),
        (("added", "flagged", "withdrawn"), "withdrawn"),
        (("added", "flagged", "accepted"), "accepted"),
        (("added", "not reproduced", "flagged", "reproduced"), "flagged"),
    ],
)
def test_the_word_is_the_last_that_matters(decisions: tuple[str, ...], word: str) -> None:
    standing = tuple(Standing(date="2026-01-01", decision=d, reason="") for d in decisions)
    entry = Entry(kind="defense", id="a/b", label="a/b", version="1", standing=standing)
    assert standing_word(entry) == word


def test_of_an_entry_that_may_be_best_by_another_measure_pages_say_who_is_shown_to_be_better() -> None:
    """By D, JPEG is shown to be better than flip; a second measure is taken to tell neither from the other."""
    made = report()
    ranking = made.rankings[0].model_copy(update={"may_be_best": (JPEG, FLIP), "winner": ""})
    own = board(tables=tuple(made.tables), rankings=(ranking,), charts=())
    rows = {row.label: row for row in made.tables[0].rows}
    table, places = made.tables[0], ranking.places
    told = {label: Result(own, ranking, table, rows[label], places[label], 4) for label in (JPEG, FLIP)}
    assert told[JPEG].verdict == "It may be the best: no entry that may win is shown to protect better."
    assert told[FLIP].verdict == (
        "By D, % of the range, worst attack, JPEG is shown to protect better; by another measure that decides it may "
        "be the best."
    )
    why = {label: badges_of(ranking, label, {})[0].title for label in (JPEG,)}
    assert why[JPEG] == "No entry that may win is shown to protect better"


def test_the_key_of_a_ranking_names_its_measures_and_what_its_hollow_dots_are() -> None:
    made = report()
    comparison = made.comparisons[0].stored()[0]
    own = board(
        tables=tuple(made.tables),
        rankings=tuple(made.rankings),
        charts=(),
        comparisons=(comparison, comparison.model_copy(update={"id": "second", "measure": "E"})),
    )
    one = RankingView(own, own.rankings[0], made.tables[0], None, (), "")
    assert one.hollow == "mean over the attacks that were run both ways, without knowledge of the defense"
    assert one.tinted == "Tinted rows may be best: no entry that can win is shown to be better."
    ranking = own.rankings[0].model_copy(update={"yardsticks": (comparison.id, "second")})
    two = RankingView(own, ranking, made.tables[0], None, (), "")
    assert f"by at least one of {comparison.measure} and E, no entry" in two.tinted
