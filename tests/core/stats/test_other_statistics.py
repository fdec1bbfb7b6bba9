"""Correlation, bootstrap, ROC and Kruskal-Wallis against scipy, scikit-learn and closed forms."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from harness.errors import NotTestable
from harness.stats.bootstrap import interval, mean_interval
from harness.stats.correlation import correlate, spearman_rows
from harness.stats.roc import auc, balanced_accuracy, tpr_at_fpr
from harness.stats.sampling import kruskal_wallis

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


def test_bootstrap_interval_covers_the_mean_at_its_level() -> None:
    hits = 0
    for seed in range(300):
        found = mean_interval(np.random.default_rng(seed).normal(size=60), seed=seed)
        hits += found.low <= 0 <= found.high
    assert 0.90 < hits / 300 < 0.985


def test_general_interval_equals_the_special_one() -> None:
    general = interval(lambda index: X[index].mean(axis=1), len(X))
    assert general == mean_interval(X)


def test_auc_and_tpr_equal_scikit_learn() -> None:
    member = RNG.integers(0, 2, 400).astype(bool)
    scores = (RNG.normal(size=400) + member).round(1)
    fpr, tpr, _ = roc_curve(member, scores, drop_intermediate=False)
    assert auc(scores, member) == pytest.approx(roc_auc_score(member, scores), abs=1e-12)
    for level in (0.0, 0.01, 0.1, 1.0):
        assert tpr_at_fpr(scores, member, level) == tpr[fpr <= level].max()


def test_balanced_accuracy_by_hand() -> None:
    assert balanced_accuracy([1, -1, -1, -1, 1], [True, True, False, False, False]) == pytest.approx(
        (1 / 2 + 2 / 3) / 2
    )


def test_kruskal_wallis_equals_scipy() -> None:
    groups = [RNG.normal(size=n).round(1) for n in (10, 12, 9)]
    assert kruskal_wallis(groups).p_value == pytest.approx(stats.kruskal(*groups).pvalue, abs=1e-12)
    with pytest.raises(NotTestable):
        kruskal_wallis([[1.0, 1.0], [1.0]])
