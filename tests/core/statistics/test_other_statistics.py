"""Correlation, bootstrap, ROC and Kruskal-Wallis against scipy, scikit-learn and closed forms."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import interval, mean_interval
from imharness.statistics.correlation import correlate, kendall_rows, pearson_rows, spearman_rows, williams
from imharness.statistics.kruskal_wallis import kruskal_wallis
from imharness.statistics.roc import accusable, auc, balanced_accuracy, fewest_non_members, tpr_at_fpr

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=40), RNG.normal(size=40).round(1)


@pytest.mark.parametrize(
    ("method", "reference"),
    [("spearman", stats.spearmanr), ("kendall", stats.kendalltau), ("pearson", stats.pearsonr)],
)
def test_correlation_equals_scipy(method: str, reference: object) -> None:
    ours, theirs = correlate(X, Y, method), reference(X, Y)
    assert ours.value == pytest.approx(theirs.statistic, abs=1e-12)
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=1e-12)


@pytest.mark.parametrize("bad", [np.ones(40), np.full(40, np.nan)])
def test_correlation_of_a_constant_or_nan_is_not_testable(bad: np.ndarray) -> None:
    with pytest.raises(NotTestable):
        correlate(X, bad, "spearman")


def test_spearman_of_many_rows_equals_scipy() -> None:
    rows = RNG.normal(size=(5, 40)).round(1)
    np.testing.assert_allclose(spearman_rows(rows, Y), [stats.spearmanr(row, Y).statistic for row in rows], atol=1e-12)


@pytest.mark.parametrize("rows", [spearman_rows, kendall_rows, pearson_rows])
def test_a_constant_or_incomplete_row_has_no_correlation(rows) -> None:
    assert np.isnan(rows([[0.1] * 7, [*range(6), np.nan]], [3, 1, 4, 1.5, 9, 2, 6])).all()


def test_pearson_of_many_rows_equals_scipy() -> None:
    rows = RNG.normal(size=(5, 40)) + 1e3
    np.testing.assert_allclose(pearson_rows(rows, Y), [stats.pearsonr(row, Y).statistic for row in rows], atol=1e-9)


def test_a_statistic_that_no_resample_defines_has_no_interval() -> None:
    result = interval(lambda at: np.where((at == np.arange(40)).all(axis=1), 1.0, np.nan), 40)
    assert result.value == 1
    assert np.isnan([result.low, result.high]).all()


def test_kendall_of_many_rows_equals_scipy() -> None:
    rows = RNG.normal(size=(5, 40)).round(1)
    np.testing.assert_allclose(kendall_rows(rows, Y), [stats.kendalltau(row, Y).statistic for row in rows], atol=1e-12)
    assert np.isnan(kendall_rows(np.ones((1, 40)), Y)[0])


@pytest.mark.parametrize(("shared", "noise"), [(0.0, 1.4), (0.3, 0.1)])
def test_williams_holds_its_level(shared: float, noise: float) -> None:
    """Both where the two say little of the truth, and where they say nearly all of it together."""
    rng, p_values = np.random.default_rng(1), []
    for _ in range(600):
        both, one, other, rest = rng.normal(size=(4, 30))
        one, other = (np.sqrt(shared) * both + np.sqrt(1 - shared) * alone for alone in (one, other))
        r = np.corrcoef([one + other + noise * rest, one, other])
        p_values.append(williams(r[0, 1], r[0, 2], r[1, 2], 30))
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.025)


def test_williams_finds_a_difference() -> None:
    assert williams(0.9, 0.1, 0.2, 30) < 1e-4
    assert williams(0.5, 0.5, 0.3, 30) == pytest.approx(1)
    for bad in ((0.5, 0.4, 1.0, 30), (0.5, 0.4, 0.3, 3), (np.nan, 0.4, 0.3, 30)):
        with pytest.raises(NotTestable):
            williams(*bad)


def test_bootstrap_interval_covers_the_mean_at_its_level() -> None:
    hits = 0
    for seed in range(300):
        result = mean_interval(np.random.default_rng(seed).normal(size=60))
        hits += result.low <= 0 <= result.high
    assert 0.90 < hits / 300 < 0.985


def test_general_interval_equals_the_special_one() -> None:
    general, special = interval(lambda index: X[index].mean(axis=1), len(X)), mean_interval(X)
    assert dataclasses.astuple(general)[:3] == pytest.approx(dataclasses.astuple(special)[:3], abs=1e-14)
    assert (general.n, general.clusters) == (special.n, special.clusters)


def test_auc_and_tpr_equal_scikit_learn() -> None:
    member = RNG.integers(0, 2, 400).astype(bool)
    scores = (RNG.normal(size=400) + member).round(1)
    fpr, tpr, _ = roc_curve(member, scores, drop_intermediate=False)
    assert auc(scores, member) == pytest.approx(roc_auc_score(member, scores), abs=1e-12)
    n = int((~member).sum())
    for level in (0.01, 0.1, 1.0):
        assert tpr_at_fpr(scores, member, level) == tpr[(n * fpr + 1) / (n + 1) <= level + 1e-9].max(initial=0.0)


@pytest.mark.parametrize(("n", "fpr"), [(150, 0.01), (99, 0.01), (199, 0.01), (30, 0.1)])
def test_a_further_non_member_is_accused_with_the_rate_that_is_asked_for(n: int, fpr: float) -> None:
    """With 150 non-members, the threshold that accuses 1 % of them would accuse 1.3 % of others."""
    rng = np.random.default_rng(0)
    accused = []
    for _ in range(4000):
        outside, further = rng.normal(size=n), rng.normal()
        accused.append(tpr_at_fpr(np.r_[outside, further], np.arange(n + 1) == n, fpr))
    assert np.mean(accused) <= fpr + 3 * np.sqrt(fpr / 4000)
    assert np.mean(accused) == pytest.approx((accusable(n, fpr) + 1) / (n + 1), abs=3 * np.sqrt(fpr / 4000))
    assert (accusable(n, fpr) + 2) / (n + 1) > fpr


def test_a_rate_is_not_defined_with_fewer_non_members_than_it_takes() -> None:
    assert (fewest_non_members(0.01), fewest_non_members(0.001)) == (99, 999)
    with pytest.raises(NotTestable, match="at least 99 non-members, got 98"):
        tpr_at_fpr(np.arange(100.0), np.arange(100) < 2, 0.01)


def test_balanced_accuracy_by_hand() -> None:
    assert balanced_accuracy([1, -1, -1, -1, 1], [True, True, False, False, False]) == pytest.approx(
        (1 / 2 + 2 / 3) / 2
    )


def test_kruskal_wallis_equals_scipy() -> None:
    groups = [RNG.normal(size=n).round(1) for n in (10, 12, 9)]
    assert kruskal_wallis(groups).p_value == pytest.approx(stats.kruskal(*groups).pvalue, abs=1e-12)
    for bad in ([[1.0, 1.0], [1.0]], [[1.0, 2.0]], [[1.0, 2.0], []]):
        with pytest.raises(NotTestable):
            kruskal_wallis(bad)
