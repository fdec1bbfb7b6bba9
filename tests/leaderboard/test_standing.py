"""How a submitted entry stands, in the words of the tables."""

import pytest

from imharness.results.entries import Entry, Standing
from imharness_leaderboard.entries import standing_word


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
