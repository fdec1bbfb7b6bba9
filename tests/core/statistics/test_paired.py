"""The vectorised Wilcoxon test against scipy's, case by case."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from imharness.statistics import NotTestable
from imharness.statistics.wilcoxon import (
    adjust,
    fewest_units,
    rank_biserial,
    resolution,
    wilcoxon_both,
    wilcoxon_greater,
)


def scipy_p(row: np.ndarray) -> float:
    """Return scipy's p of a row; by all patterns of signs where 13 to 50 differences have ties."""
    row = row[row != 0]
    if not len(row):
        return np.nan
    if 13 <= len(row) <= 50 and len(np.unique(np.abs(row))) < len(row):
        return over_all_signs(row) if len(row) <= 14 else counted(row)
    return stats.wilcoxon(row, alternative="greater", zero_method="wilcox", correction=False, method="auto").pvalue


def over_all_signs(row: np.ndarray) -> float:
    """Return the exact p of few differences with ties: the permutation test of scipy, vectorised."""

    def positive(d: np.ndarray, axis: int) -> np.ndarray:
        return (ranks * (d > 0)).sum(axis=axis)

    ranks = stats.rankdata(np.abs(row))
    return stats.permutation_test(
        (row,), positive, permutation_type="samples", vectorized=True, n_resamples=np.inf, alternative="greater"
    ).pvalue


def counted(row: np.ndarray) -> float:
    """Return the share of all patterns of signs whose rank sum is at least that of `row`, counted sum by sum."""
    doubled = [round(2 * rank) for rank in stats.rankdata(np.abs(row))]
    ways = Counter({0: 1})
    for rank in doubled:
        ways += Counter({total + rank: number for total, number in ways.items()})
    reached = sum(rank for rank, difference in zip(doubled, row, strict=True) if difference > 0)
    return sum(number for total, number in ways.items() if total >= reached) / 2 ** len(row)


def test_the_patterns_that_are_counted_are_those_of_scipy() -> None:
    row = np.random.default_rng(4).integers(1, 5, 14) * np.array([1.0, -1.0] * 7)
    assert counted(row) == pytest.approx(over_all_signs(row), rel=1e-12)


def test_all_signs_at_once_are_those_of_scipys_loop() -> None:
    row = np.array([0.5, -0.5, 0.75, 0.25, 1.25, -0.25, 0.75, 1.0, -1.5])
    assert over_all_signs(row) == scipy_p(row)


@pytest.mark.parametrize("n", [1, 2, 5, 13, 14, 50, 51, 300])
@pytest.mark.parametrize("kind", ["plain", "single", "ties", "zeros", "both"])
def test_equals_scipy(n: int, kind: str) -> None:
    rng = np.random.default_rng(n)
    d = rng.normal(0.1, 1, (6, n))
    if kind == "single":
        d = d.astype(np.float32).astype(float)
    if kind in ("ties", "both"):
        d = np.where(np.abs(d) < 0.25, 0.5, np.round(d * 4) / 4)
    if kind in ("zeros", "both"):
        d[:, ::3] = 0
    with np.errstate(all="ignore"):
        expected = [scipy_p(row) for row in d]
    np.testing.assert_allclose(wilcoxon_greater(d), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(wilcoxon_both(d), [wilcoxon_greater(d), wilcoxon_greater(-d)])


def test_all_zero_differences_are_not_testable_but_others_are() -> None:
    p = wilcoxon_greater([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    assert np.isnan(p[0])
    assert p[1] == pytest.approx(1 / 8)


def test_few_differences_among_many_zeros_are_tested_exactly() -> None:
    """Of five equal differences all are positive once in 32 times; the normal approximation would say 0.013."""
    assert wilcoxon_greater(np.append(np.ones(5), np.zeros(35)))[0] == pytest.approx(1 / 32)
    assert wilcoxon_greater(np.append([1.0, 2.0, 3.0, 4.0], np.zeros(36)))[0] == pytest.approx(1 / 16)


@pytest.mark.parametrize("bad", [[[np.nan, 1.0]], [[np.inf, 1.0]], np.empty((3, 0))])
def test_bad_differences_are_refused(bad: object) -> None:
    with pytest.raises(NotTestable):
        wilcoxon_greater(bad)


@pytest.mark.parametrize("method", ["bonferroni", "holm"])
def test_adjust_is_its_definition(method: str) -> None:
    p = np.random.default_rng(0).uniform(0, 0.2, 40).round(2)
    expected = p * 40
    if method == "holm":
        expected = [max(q * (40 - index) for index, q in enumerate(sorted(p)) if q <= p_value) for p_value in p]
    np.testing.assert_array_equal(adjust(p, method), np.minimum(expected, 1))
    assert adjust([], method).shape == (0,)


@pytest.mark.parametrize("method", ["bonferroni", "holm"])
@pytest.mark.parametrize("decimals", [2, 16])
def test_adjust_is_statsmodels_to_the_bit(method: str, decimals: int) -> None:
    from statsmodels.stats.multitest import multipletests

    p = (np.random.default_rng(1).random((30, 30)) ** 3).round(decimals)
    expected = multipletests(p.ravel(), method=method)[1].reshape(p.shape)
    np.testing.assert_array_equal(adjust(p, method), expected)


def test_adjust_leaves_what_is_not_testable_out_of_the_count() -> None:
    np.testing.assert_allclose(adjust([0.01, np.nan, 0.02]), [0.02, np.nan, 0.04])


@pytest.mark.parametrize("n", [12, 40, 300])
def test_differences_that_32_bits_cannot_tell_apart_keep_the_order_of_64(n: int) -> None:
    rng = np.random.default_rng(n)
    d = rng.normal(0.1, 1, (9, n))
    d[1, 5] = -d[1, 4] * (1 + 2**-40)  # one is larger than the other, by less than 32 bits show
    d[2, 5] = d[2, 4] * (1 - 2**-40)
    d[3, 6] = -d[3, 7]  # equal in truth
    d[4, :3] = 1e-60, -2e-60, 0.0  # one zero of 64 bits, three of 32
    d[5, 0] = 0.0
    d[6, :2] = 1e200, -1e300  # both infinite as floats of 32 bits
    d[7, 0], d[8, 0] = 1e300, -1e-60
    expected = [scipy_p(row) for row in d]
    assert wilcoxon_greater(d) == pytest.approx(expected, rel=1e-12)
    assert wilcoxon_greater(d[::-1]) == pytest.approx(expected[::-1], rel=1e-12)


@pytest.mark.parametrize("n", [8, 13, 14, 16])
def test_ties_are_exact_as_all_sign_patterns_of_scipy_are(n: int) -> None:
    d = np.random.default_rng(n).integers(-2, 5, n).astype(float)
    d[:2] = (1, 0)
    exact = stats.PermutationMethod(n_resamples=np.inf)
    for differences, p_values in zip((d, -d), wilcoxon_both(d[None]), strict=True):
        nonzero = differences[differences != 0]
        assert p_values[0] == pytest.approx(over_all_signs(nonzero), rel=1e-9)
        if n == 13:  # scipy's loop over more takes a second
            theirs = stats.wilcoxon(nonzero, alternative="greater", method=exact).pvalue
            assert p_values[0] == pytest.approx(theirs, rel=1e-9)


def test_with_25_ties_p_is_that_of_many_random_signs_and_far_from_the_approximation() -> None:
    d = np.repeat([1.0, 2.0, 3.0], [20, 3, 2])
    d[:5] *= -1
    signs = np.random.default_rng(0).choice([-1, 1], (200_000, 25))
    ranks = stats.rankdata(np.abs(d))
    reached = ((signs > 0) @ ranks >= ranks[d > 0].sum() - 1e-9).mean()
    assert wilcoxon_greater(d[None])[0] == pytest.approx(reached, rel=0.1)
    assert wilcoxon_greater(np.ones((1, 25)))[0] == 2.0**-25


@pytest.mark.parametrize("tests", [1, 2, 32, 272, 25602])
def test_the_fewest_units_of_a_test_that_can_succeed(tests: int) -> None:
    n = fewest_units(tests, 0.05)
    lowest = [float(adjust(np.r_[wilcoxon_greater(np.ones((1, k))), np.ones(tests - 1)])[0]) for k in (n - 1, n)]
    assert lowest[1] < 0.05 <= lowest[0]


def shares(rng: np.random.Generator, n: int) -> np.ndarray:
    """Shares of 35 or 70 pairs in percent, of two entries under three conditions ``(2, 3, n)``, as exact fractions."""
    reversed_pairs = rng.integers(0, 36, (2, 3, n)) * rng.integers(1, 3, (1, 3, n))
    return np.array([Fraction(100 * int(x), 70) for x in reversed_pairs.ravel()], dtype=object).reshape(2, 3, n)


@pytest.mark.parametrize("n", [12, 36, 60])
def test_shares_that_were_stored_with_32_bits_have_the_p_of_exact_fractions(n: int) -> None:
    parted = 0
    for seed in range(20):
        exact = shares(np.random.default_rng(seed), n)
        stored = exact.astype(float).astype(np.float32)
        ranks = np.array([int(72 * 70 * x) for x in (exact[0] - exact[1]).sum(axis=0)], dtype=float)
        gaps = (stored[0].astype(float) - stored[1]).mean(axis=0)
        near = resolution(stored.reshape(2, -1)).max()
        assert wilcoxon_greater(gaps, near)[0] == pytest.approx(scipy_p(ranks), rel=1e-12)
        assert wilcoxon_greater(-gaps, near)[0] == pytest.approx(scipy_p(-ranks), rel=1e-12)
        assert rank_biserial(gaps[None], near)[0] == pytest.approx(rank_biserial(ranks[None])[0], rel=1e-12)
        parted += bool(wilcoxon_greater(gaps)[0] != pytest.approx(scipy_p(ranks), rel=1e-9))
    assert parted > 0, "without the resolution rounding parts ties, or the test says nothing"


def test_what_64_bits_tell_apart_is_told_apart_and_scores_that_are_none_do_not_count() -> None:
    scores = np.array([[1e6, 1e6 + 0.01, np.nan, np.inf], [1.0, -2.0, 0.0, np.nan]])
    np.testing.assert_allclose(resolution(scores), [1e-8, 2e-14], rtol=1e-6)
    np.testing.assert_allclose(resolution(scores.astype(np.float32)), [1.0, 2e-6], rtol=1e-6)
    assert resolution(np.full((1, 3), np.nan)).tolist() == [0]
