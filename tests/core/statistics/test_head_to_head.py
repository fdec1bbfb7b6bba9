"""Head to head: against scipy, closed forms, and a slow bootstrap."""

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from imharness.statistics import NotTestable
from imharness.statistics.head_to_head import head_to_head, rank_biserial, resampled, tie_groups


def one(d: np.ndarray, tests: int = 2):
    return head_to_head(d, tail=0.05, tests=tests)


def test_p_values_are_those_of_scipy_in_both_directions() -> None:
    d = np.random.default_rng(0).normal(0.3, 1, 40).astype(np.float32).astype(float)
    found = one(d)
    for p, side in ((found.better, "greater"), (found.worse, "less")):
        assert p == pytest.approx(scipy.stats.wilcoxon(d, alternative=side).pvalue, rel=1e-12)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=30))
def test_rank_biserial_is_favourable_minus_unfavourable_ranks(values: list[int]) -> None:
    d = np.array(values, dtype=float)
    kept = d[d != 0]
    ranks = scipy.stats.rankdata(np.abs(kept))
    expected = (ranks[kept > 0].sum() - ranks[kept < 0].sum()) / ranks.sum() if len(kept) else 0.0
    assert rank_biserial(d[None])[0] == pytest.approx(expected)


def test_the_interval_is_that_of_student_at_the_level_that_is_given() -> None:
    d = np.random.default_rng(1).normal(size=25)
    for tail in (0.05, 0.003):
        found, wanted = head_to_head(d, tail=tail), scipy.stats.ttest_1samp(d, 0).confidence_interval(1 - tail)
        assert (found.difference.low, found.difference.high) == pytest.approx((wanted.low, wanted.high), rel=1e-12)
    assert (found.difference.value, found.difference.n) == (pytest.approx(d.mean()), 25)


def test_resampled_positions_are_uniform_and_fixed() -> None:
    positions = resampled(20)
    counts = np.bincount(positions.ravel(), minlength=20)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    assert abs(np.corrcoef(positions[:, 0], positions[:, 1])[0, 1]) < 0.1
    np.testing.assert_array_equal(positions[:3, :4], resampled(20, 3)[:, :4])


def test_p_is_corrected_for_all_tests() -> None:
    found = one(np.arange(1.0, 9.0), tests=13)
    assert found.corrected(found.better) == pytest.approx(13 / 256)
    assert found.corrected(found.worse) == 1


def test_nothing_shared_is_not_testable_and_no_difference_has_no_p() -> None:
    with pytest.raises(NotTestable, match="share no unit"):
        one(np.array([np.nan]))
    found = one(np.zeros(4))
    assert np.isnan(found.better)
    assert found.effect == 0
    assert np.isnan(found.difference.low)


def test_groups_hold_what_their_first_does_not_beat() -> None:
    beats = np.zeros((4, 4), dtype=bool)
    beats[0, 2] = beats[0, 3] = beats[1, 3] = beats[2, 3] = True
    assert tie_groups([0, 1, 2, 3], beats) == [[0, 1], [2], [3]]
    assert tie_groups([], beats) == []
