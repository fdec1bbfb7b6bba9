"""Head to head: against scipy, closed forms, and a slow bootstrap."""

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from imharness.statistics import NotTestable
from imharness.statistics.head_to_head import head_to_head, tie_groups
from imharness.statistics.wilcoxon import rank_biserial


def one(d: np.ndarray, tests: int = 2):
    return head_to_head(d, alpha=0.05, tests=tests)


def test_p_values_are_those_of_scipy_in_both_directions() -> None:
    d = np.random.default_rng(0).normal(0.3, 1, 40).astype(np.float32).astype(float)
    result = one(d)
    for p, side in ((result.better, "greater"), (result.worse, "less")):
        assert p == pytest.approx(scipy.stats.wilcoxon(d, alternative=side).pvalue, rel=1e-12)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=30))
def test_rank_biserial_is_favourable_minus_unfavourable_ranks(values: list[int]) -> None:
    d = np.array(values, dtype=float)
    nonzero = d[d != 0]
    ranks = scipy.stats.rankdata(np.abs(nonzero))
    expected = (ranks[nonzero > 0].sum() - ranks[nonzero < 0].sum()) / ranks.sum() if len(nonzero) else 0.0
    assert rank_biserial(d[None])[0] == pytest.approx(expected)


def test_the_interval_is_that_of_student_at_the_level_that_is_given() -> None:
    d = np.random.default_rng(1).normal(size=25)
    for alpha in (0.05, 0.003):
        result, wanted = head_to_head(d, alpha=alpha), scipy.stats.ttest_1samp(d, 0).confidence_interval(1 - alpha)
        assert (result.difference.low, result.difference.high) == pytest.approx((wanted.low, wanted.high), rel=1e-12)
    assert (result.difference.value, result.difference.n) == (pytest.approx(d.mean()), 25)


def test_p_is_corrected_for_all_tests() -> None:
    result = one(np.arange(1.0, 9.0), tests=13)
    assert result.corrected(result.better) == pytest.approx(13 / 256)
    assert result.corrected(result.worse) == 1


def test_nothing_shared_is_not_testable_and_no_difference_has_no_p() -> None:
    with pytest.raises(NotTestable, match="share no unit"):
        one(np.array([np.nan]))
    result = one(np.zeros(4))
    assert np.isnan(result.better)
    assert result.effect == 0
    assert np.isnan(result.difference.low)


def test_groups_hold_what_their_first_does_not_beat() -> None:
    beats = np.zeros((4, 4), dtype=bool)
    beats[0, 2] = beats[0, 3] = beats[1, 3] = beats[2, 3] = True
    assert tie_groups([0, 1, 2, 3], beats) == [[0, 1], [2], [3]]
    assert tie_groups([], beats) == []
