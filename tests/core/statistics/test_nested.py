"""Intervals of units that are nested in groups, on data whose mean and variances are known."""

import numpy as np
import pytest
import scipy

from imharness.leaderboard import NotTestable, nested_interval, t_interval

SHAPE = (6, 5, 5)
"""The numbers of splits in the pools of the official leaderboard."""
STUDIES = 4000


def coverage(share: float, shape: tuple[int, ...] = SHAPE, strata: int = 1) -> tuple[float, float]:
    """Return how many intervals hold the mean: nested ones, and Student's of all units.

    `share`: of the variance of a unit, how much all units of its group have in common. Strata have means of their own.
    """
    rng, hits = np.random.default_rng(3), np.zeros(2)
    stratum = np.repeat(np.arange(strata), sum(shape))
    group = np.concatenate([np.repeat(np.arange(len(shape)), shape) + len(shape) * i for i in range(strata)])
    for _ in range(STUDIES):
        common = np.sqrt(share) * rng.normal(size=len(shape) * strata)
        sample = common[group] + np.sqrt(1 - share) * rng.normal(size=len(group))
        truth = 10.0 * stratum.mean()
        intervals = nested_interval(sample + 10.0 * stratum, group, stratum), t_interval(sample + truth)
        hits += [interval.low <= truth <= interval.high for interval in intervals]
    nested, plain = hits / STUDIES
    return float(nested), float(plain)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.1, 0.15, 0.3])
def test_intervals_hold_the_mean_of_new_groups_whether_groups_matter_or_not(share: float) -> None:
    """The standard error of a coverage is 0.004."""
    nested, plain = coverage(share)
    assert 0.925 < nested < 0.98
    if share >= 0.15:
        assert plain < 0.89
        assert nested > plain + 0.05


@pytest.mark.parametrize("share", [0.0, 0.15, 0.3])
def test_means_of_data_sets_may_differ(share: float) -> None:
    assert 0.925 < coverage(share, strata=2)[0] < 0.98


def test_where_groups_differ_more_than_units_of_equal_groups_the_interval_is_that_of_their_means() -> None:
    """With equal groups the two variances add up to that of the groups' means, whose degrees of freedom are exact."""
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 3.0, 7.0, 9.0], 4) + rng.normal(size=16)
    result = nested_interval(x, np.repeat(list("abcd"), 4))
    means = x.reshape(4, 4).mean(axis=1)
    low, high = scipy.stats.t.interval(0.95, 3, means.mean(), scipy.stats.sem(means))
    assert (result.low, result.high) == pytest.approx((low, high))
    assert result.n == 16


def test_where_groups_differ_less_than_their_units_the_interval_is_students() -> None:
    x = np.tile([-1.0, 0.5, 2.0, 3.5], 4)
    result, plain = nested_interval(x, np.repeat(np.arange(4), 4)), t_interval(x)
    assert (result.value, result.low, result.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_the_order_and_the_names_of_groups_say_nothing() -> None:
    rng = np.random.default_rng(1)
    x, group = rng.normal(size=16), np.repeat(["b", "a", "c"], SHAPE)
    mixed = rng.permutation(16)
    first, second = nested_interval(x, group), nested_interval(x[mixed], group[mixed])
    assert (first.low, first.high) == pytest.approx((second.low, second.high))


def test_two_groups_and_values_that_are_not_finite_have_no_interval() -> None:
    result = nested_interval([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1])
    assert result.value == 2.5
    assert np.isnan([result.low, result.high]).all()
    assert np.isnan(nested_interval(np.arange(6.0), [0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]).low)
    for values in ([], [1.0, np.nan]):
        with pytest.raises(NotTestable):
            nested_interval(values, np.zeros(len(values)))
