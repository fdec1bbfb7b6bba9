"""Levels of many entries against one, and of the best of many, by closed forms that share nothing with resampling.

Entries of equal, independent normal noise have differences that are correlated by one half: their largest t against one
is Dunnett's, and that of all pairs is the studentised range.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm, studentized_range

from imharness.statistics.against_one import BETTER, WORSE, against_one, best_alpha
from imharness.statistics.differences import alpha_of

REACH = 10.0
"""The largest possible difference of two numbers of a unit."""


def dunnett(entries: int, level: float) -> float:
    """Return the one-sided level of one difference at which those of so many entries against one hold at once."""

    def missed(bound: float) -> float:
        probability = quad(lambda x: norm.pdf(x) * norm.cdf(np.sqrt(2) * bound + x) ** entries, -8, 8)[0]
        return float(1 - probability - level)

    return float(norm.sf(brentq(missed, 0, 8)))


def noise(entries: int, units: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((entries, units))


@pytest.mark.parametrize("entries", [2, 5, 12])
def test_levels_against_one_are_those_of_dunnett(entries: int) -> None:
    x = noise(entries + 1, 1_000)
    better, worse = against_one(x[1:] - x[0], REACH).alphas
    assert better == pytest.approx(dunnett(entries, BETTER), rel=0.25)
    assert worse == pytest.approx(dunnett(entries, WORSE), rel=0.5)


@pytest.mark.parametrize("entries", [3, 6, 13])
def test_the_level_of_the_best_of_many_is_that_of_dunnett_for_each_as_the_best(entries: int) -> None:
    wanted = dunnett(entries - 1, 0.05)
    assert 0.6 * wanted < best_alpha(noise(entries, 1_000)) < 1.2 * wanted


@pytest.mark.parametrize("entries", [3, 6])
def test_the_level_of_all_pairs_is_that_of_the_studentised_range(entries: int) -> None:
    wanted = 2 * norm.sf(studentized_range.ppf(0.95, entries, 10_000) / np.sqrt(2))
    assert alpha_of(noise(entries, 1_000)) == pytest.approx(wanted, rel=0.3)


def standardised(units: int, seed: int) -> np.ndarray:
    x = noise(1, units, seed)[0]
    return (x - x.mean()) / x.std(ddof=1)


def test_once_some_are_shown_to_be_better_the_others_are_asked_among_themselves() -> None:
    """With 12 units a difference of t = 2.4 is shown alone (it takes 1.9), and not among ten (3 or more)."""
    edge = standardised(12, 0) + 2.4 / np.sqrt(12)
    nothing = np.stack([standardised(12, seed) for seed in range(1, 10)])
    among_clear = against_one(np.vstack([nothing + 10, edge]), REACH)
    assert among_clear.better.all()
    assert among_clear.low[-1] == 0.0
    among_nothing = against_one(np.vstack([nothing, edge]), REACH)
    assert not among_nothing.better.any()
    assert among_nothing.low[-1] < 0
