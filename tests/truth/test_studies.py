"""The numbers of studies in `studies.py` detect what the descriptions there say."""

import pytest
from scipy.stats import binom
from tests.truth.studies import STUDIES, most


def power(share: float, studies: int = STUDIES) -> float:
    """Return the probability that a leaderboard that is wrong in a share of studies fails the test."""
    return float(binom.sf(most(studies), studies, share))


def test_the_probabilities_that_are_stated_for_a_hundred_studies() -> None:
    powers = [power(share) for share in (0.05, 0.10, 0.15, 0.20)]
    assert powers == pytest.approx([0.012, 0.42, 0.90, 0.994], abs=0.005)
    assert power(0.30) > 0.9999


def test_other_numbers_of_studies_that_tests_have() -> None:
    """With 50 studies, a 20 % error rate is detected with power .90; with 200, 15 % with .99."""
    assert power(0.15, STUDIES // 2) == pytest.approx(0.64, abs=0.005)
    assert power(0.20, STUDIES // 2) == pytest.approx(0.90, abs=0.005)
    assert power(0.15, 2 * STUDIES) > 0.99
    assert all(power(0.05, n) <= 1 / 80 for n in range(20, 401))
