"""How pages describe the standing of an entry: the last decision that matters, and whether it may be the best."""

from types import SimpleNamespace

import pytest

from imharness.documents.entries import Entry, Standing
from imharness_leaderboard.entries import Result, standing_word
from imharness_leaderboard.rankings import RankingView

from .conftest import sample_leaderboard
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


def test_pages_say_of_an_entry_that_may_be_best_that_nobody_is_shown_to_be_better() -> None:
    original = report()
    ranking = original.rankings[0].model_copy(update={"may_be_best": (JPEG, FLIP), "winner": ""})
    leaderboard = sample_leaderboard(tables=tuple(original.tables), rankings=(ranking,), charts=())
    row = next(row for row in original.tables[0].rows if row.label == FLIP)
    result = Result(leaderboard, ranking, original.tables[0], row, ranking.places[FLIP], 4)
    assert result.verdict == "It may be the best: no entry that may win is shown to be better."
    headline = " ".join(ranking.places[FLIP].headline)
    assert result.headline == headline.replace(FLIP, "Flip").replace("harness/none", "No defense")
    assert result.headline.startswith("Flip ")


def test_the_key_of_a_ranking_names_its_measures_and_what_its_hollow_dots_are() -> None:
    original = report()
    leaderboard = sample_leaderboard(tables=tuple(original.tables), rankings=tuple(original.rankings), charts=())
    one = RankingView(leaderboard, leaderboard.rankings[0], original.tables[0], None, (), "")
    assert one.hollow == "mean over the attacks that were run both ways, without knowledge of the entry"
    assert one.bracketed == "Bracket: the first, and those that may win and are not separated from it."


def test_an_entry_shows_four_of_its_images_and_facets_come_by_name() -> None:
    original = report()
    comparison, _ = original.comparisons[0].stored()
    letters = "hgfedcba"
    conditions = tuple(
        comparison.conditions[0].model_copy(update={"facets": {"attack": letter, "metric": "m"}}) for letter in letters
    )
    turned = comparison.model_copy(update={"conditions": conditions})
    leaderboard = sample_leaderboard(tables=tuple(original.tables), rankings=tuple(original.rankings), charts=())
    images = [SimpleNamespace(example=SimpleNamespace(entry=label)) for label in [FLIP, *[JPEG] * 6]]
    view = RankingView(leaderboard, leaderboard.rankings[0], original.tables[0], None, images, "")
    rows = {row.row.label: row for row in view.rows}
    assert list(rows[JPEG].images) == images[1:5]
    assert list(rows[FLIP].images) == images[:1]
    behind = SimpleNamespace(comparison=turned)
    assert RankingView(leaderboard, leaderboard.rankings[0], original.tables[0], behind, (), "").facets == {
        "attack": sorted(letters)
    }
