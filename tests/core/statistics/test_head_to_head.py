"""Head to head: against scipy, closed forms, and a slow bootstrap."""

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from imharness.statistics import NotTestable
from imharness.statistics.head_to_head import head_to_head, rank_biserial, resampled, tie_groups


def one(d: np.ndarray, tests: int = 1):
    return head_to_head([d], [np.arange(len(d))], tests=tests, alpha=0.05)


def test_p_values_are_those_of_scipy_in_both_directions() -> None:
    d = np.random.default_rng(0).normal(0.3, 1, 40).astype(np.float32).astype(float)
    found = one(d)
    for p, side in ((found.better, "greater"), (found.worse, "less")):
        assert p == pytest.approx(scipy.stats.wilcoxon(d, alternative=side).pvalue, rel=1e-12)


def test_a_unit_counts_once_however_many_conditions_it_has() -> None:
    conditions = [np.array([1.0, 2.0]), np.array([3.0, np.nan]), np.array([5.0])]
    places = [np.array([0, 1]), np.array([0, 1]), np.array([2])]
    found = head_to_head(conditions, places, tests=1, alpha=0.05)
    assert found.difference.n == 3
    assert found.difference.value == pytest.approx((2 + 2 + 5) / 3)
    assert found.tested == 3


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=30))
def test_rank_biserial_is_favourable_minus_unfavourable_ranks(values: list[int]) -> None:
    d = np.array(values, dtype=float)
    kept = d[d != 0]
    ranks = scipy.stats.rankdata(np.abs(kept))
    expected = (ranks[kept > 0].sum() - ranks[kept < 0].sum()) / ranks.sum() if len(kept) else 0.0
    assert rank_biserial(d[None])[0] == pytest.approx(expected)


def test_intervals_are_percentiles_of_the_resamples() -> None:
    d = np.random.default_rng(1).normal(size=25).astype(np.float32).astype(float)
    found = one(d)
    means = [d[row].mean() for row in resampled(25)]
    effects = [rank_biserial(d[row][None])[0] for row in resampled(25)]
    for own, estimates in ((found.difference, means), (found.effect, effects)):
        assert (own.low, own.high) == pytest.approx(tuple(np.percentile(estimates, [2.5, 97.5])), rel=1e-12)
        assert own.low <= own.value <= own.high


def test_resampled_positions_are_uniform_and_fixed() -> None:
    positions = resampled(20)
    counts = np.bincount(positions.ravel(), minlength=20)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    assert abs(np.corrcoef(positions[:, 0], positions[:, 1])[0, 1]) < 0.1
    np.testing.assert_array_equal(positions[:3, :4], resampled(20, 3)[:, :4])


def test_wins_are_corrected_for_the_whole_pool() -> None:
    d = np.arange(1.0, 9.0)
    assert one(d).wins == 1
    assert one(d, tests=13).wins == 0
    assert one(-d).losses == 1


def test_nothing_shared_is_not_testable_and_no_difference_has_no_p() -> None:
    with pytest.raises(NotTestable, match="share no unit"):
        one(np.array([np.nan]))
    found = one(np.zeros(4))
    assert np.isnan(found.better)
    assert found.effect.value == 0
    assert found.tested == 0


def test_groups_hold_what_their_first_does_not_beat() -> None:
    beats = np.zeros((4, 4), dtype=bool)
    beats[0, 2] = beats[0, 3] = beats[1, 3] = beats[2, 3] = True
    assert tie_groups([0, 1, 2, 3], beats) == [[0, 1], [2], [3]]
    assert tie_groups([], beats) == []
