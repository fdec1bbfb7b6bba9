"""Rankings of simulated scores: equal entries, entries with a known difference, missing numbers."""

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from imharness.leaderboard import Blocks, Column, Table, Wins, ranking
from imharness.ranking.comparisons import not_worse
from imharness.ranking.ranking import winner

from .studies import STUDIES, most

SEEDS = 200
"""With so many simulations, the standard error of a power of 0.8 is 0.03."""
ALPHA = 0.05
EFFICIENCY = 3 / np.pi
"""The efficiency of the signed-rank test relative to the t-test, for normal differences."""


def table_and_marks(values: np.ndarray, better: str, *, photographs: int = 0) -> tuple[Table, str, tuple[str, ...]]:
    """Rank entries ``(entries, units)``; return the table, its winner and those not significantly worse."""
    entries, units = values.shape
    names = np.array([f"image {i:04d}" for i in range(units)], dtype=object)
    facts = {"photograph": (np.arange(units) * photographs // units,)} if photographs else {}
    scores = Blocks(tuple("abcdefgh"[:entries]), ({"set": "s"},), (names,), {"d": (values,)}, facts)
    column = Column("d", "D", "Made up.", better, wins=Wins("wins", "Who wins", "D"), cluster="".join(facts))
    report = ranking(scores, column, id="t", title="T", caption="", entry="defense")
    comparison, numbers = report.comparisons[0].stored()
    best = winner(report.tables[0], "d")
    return report.tables[0], best, not_worse(comparison, numbers, best)


@pytest.mark.parametrize(("entries", "photographs"), [(2, 0), (5, 0), (2, 12)])
def test_equal_entries_are_marked_as_different_no_more_often_than_stated(entries: int, photographs: int) -> None:
    wrong = 0
    for seed in range(STUDIES):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(entries, 48))
        if photographs:
            values += np.repeat(rng.normal(scale=2, size=(entries, photographs)), 48 // photographs, axis=1)
        _, _, equal = table_and_marks(values, "lower", photographs=photographs)
        wrong += len(equal) < entries - 1
    assert wrong <= most()


@pytest.mark.parametrize(
    ("difference", "n", "photographs", "better"),
    [(0.4, 40, 0, "lower"), (0.6, 40, 0, "higher"), (1.0, 96, 16, "lower")],
)
def test_a_known_difference_is_found_as_often_as_the_power_formula_says(
    difference: float, n: int, photographs: int, better: str
) -> None:
    """Both entries have noise of variance 1/2, by image or by photograph: the paired differences have variance 1."""
    sources = photographs or n
    power = TTestPower().power(difference, sources * EFFICIENCY, ALPHA / 2, alternative="larger")
    assert 0.6 < power < 0.97
    detected = 0
    for seed in range(SEEDS):
        noise = np.random.default_rng(seed).normal(scale=np.sqrt(0.5), size=(2, sources))
        values = np.repeat(noise, n // sources, axis=1)
        values[0] += difference if better == "higher" else -difference
        _, best, equal = table_and_marks(values, better, photographs=photographs)
        detected += best == "a" and equal == ()
    assert detected / SEEDS == pytest.approx(power, abs=0.09)


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_entries_stand_by_their_truth_and_those_without_numbers_last(better: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 60)) + np.array([[3.0], [0.0], [np.nan], [6.0], [np.nan]])
    values[4, 7] = np.nan
    table, best, equal = table_and_marks(values, better)
    assert [row.label for row in table.rows] == [*("dab" if better == "higher" else "bad"), "c", "e"]
    assert best == table.rows[0].label
    assert set(equal) == {"c", "e"}  # they share no unit with the best, so nothing shows them to be worse
    assert [row.values["d"].missing != "" for row in table.rows] == [False] * 3 + [True] * 2


def test_an_entry_that_abstains_sometimes_keeps_its_other_numbers() -> None:
    values = np.random.default_rng(1).normal(size=(2, 60))
    values[0, :20] = np.nan
    values[0] -= 5
    table, best, equal = table_and_marks(values, "lower")
    assert (best, equal) == ("a", ())
    assert [row.values["d"].n for row in table.rows] == [40, 60]
