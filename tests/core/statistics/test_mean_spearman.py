"""The mean of rank correlations by counts equals the one that ranks every resample anew, whatever ties and gaps."""

import numpy as np
import pytest
import scipy

from imharness.leaderboard import NotTestable, interval, mean_spearman
from imharness.statistics import mean_spearman as module


def correlated(line: np.ndarray, labels: np.ndarray, unknown: float) -> float:
    mask = np.isfinite(line)
    if mask.sum() >= 3 and np.ptp(line[mask]) > 0 and np.ptp(labels[mask]) > 0:
        return float(np.corrcoef(*[scipy.stats.rankdata(numbers[mask]) for numbers in (line, labels)])[0, 1])
    return unknown


def plainly(scores: np.ndarray, labels: np.ndarray, positions: np.ndarray, unknown: float = np.nan) -> np.ndarray:
    """Rank each line in each resample by itself, and take the mean.

    `unknown`: the number of a line that has no correlation in a resample.
    """
    lines = [line for line in scores if np.isfinite(correlated(line, labels, np.nan))]
    return np.array([np.mean([correlated(line[at], labels[at], unknown) for line in lines]) for at in positions])


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "gaps"])
@pytest.mark.parametrize("clustered", [False, True], ids=["single", "clusters"])
def test_counts_give_what_ranking_every_resample_anew_gives(ties: bool, gaps: bool, clustered: bool) -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(4, 24)), rng.normal(size=24)
    if ties:
        scores, labels = np.round(scores, 0), np.round(labels, 0)
    if gaps:
        scores[1, :12] = scores[2, ::2] = scores[3, 1:] = np.nan
    clusters = np.repeat([f"p{i}" for i in range(8)], [1, 2, 3, 4, 5, 6, 2, 1]) if clustered else None
    result = mean_spearman(scores, labels, clusters, resamples=200)
    least, most = (
        interval(lambda p, r=r: plainly(scores, labels, p, r), 24, clusters, resamples=200) for r in (-1.0, 1.0)
    )
    assert (result.n, result.clusters) == (least.n, least.clusters)
    assert [result.value, result.low, result.high] == pytest.approx([least.value, least.low, most.high], abs=1e-12)


def test_a_correlation_that_hangs_on_one_cluster_has_a_wide_interval_and_no_narrow_one() -> None:
    """Without the last of eight clusters all scores are equal: a third of resamples lacks it and has no correlation."""
    scores, labels = np.zeros(24), np.arange(24.0)
    scores[21:] = [1.0, 2.0, 3.0]
    clusters = np.repeat(np.arange(8), 3)
    result = mean_spearman(scores[None], labels, clusters)
    assert (result.low, result.high) == (-1, 1)
    assert result.value == pytest.approx(scipy.stats.spearmanr(scores, labels).statistic)
    plain = interval(lambda p: plainly(scores[None], labels, p), 24, clusters)
    assert np.isnan([plain.low, plain.high]).all(), "an interval of those that have one would be too short"
    beside = mean_spearman([scores, labels], labels, clusters)
    assert (beside.low, beside.high) == (0, 1)


def test_more_units_than_are_looked_at_together_change_nothing() -> None:
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=(1, 9000)), rng.normal(size=9000)
    result = mean_spearman(scores + labels, labels, resamples=1000)
    plain = interval(lambda p: plainly(scores + labels, labels, p[:5]), 9000, resamples=1000)
    assert result.value == pytest.approx(plain.value, abs=1e-12)
    assert result.low < result.value < result.high < result.low + 0.05


def test_numbers_that_are_all_the_same_have_no_correlation() -> None:
    with pytest.raises(NotTestable, match="no line"):
        mean_spearman([[1.0, 1.0, 1.0, 1.0]], [1.0, 2.0, 3.0, 4.0])


def test_lines_that_are_summed_give_the_mean_of_lines_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some lines have equal numbers, some lack units; all others are asked for together."""
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(size=(30, 60)), np.round(rng.normal(size=60), 1)
    scores[:3] = np.round(scores[:3], 1)
    scores[3:12, ::4] = scores[12, 5] = np.nan
    clusters = np.repeat(np.arange(20), 3)
    one_by_one = mean_spearman(scores, labels, clusters), mean_spearman(scores, labels)
    monkeypatch.setattr(module, "_UNITS", range(1000))
    monkeypatch.setattr(module, "_AT_ONCE", 512)
    assert [group.summed for group in module._grouped(scores, labels)].count(0) == 1
    for result, alone in zip(
        (mean_spearman(scores, labels, clusters), mean_spearman(scores, labels)), one_by_one, strict=True
    ):
        assert (result.n, result.clusters) == (alone.n, alone.clusters)
        assert [result.value, result.low, result.high] == pytest.approx([alone.value, alone.low, alone.high], abs=1e-14)


def test_a_few_equal_numbers_among_many_units_are_summed_and_change_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    labels = rng.normal(size=900)
    scores = labels + rng.normal(size=(9, 900))
    scores[np.arange(8), np.arange(8)] = scores[np.arange(8), np.arange(8) + 100]
    scores[8] = np.round(scores[8])
    assert [(group.summed, len(group.lines)) for group in module._grouped(scores, labels)] == [(8, 1)]
    result = mean_spearman(scores, labels, resamples=200)
    monkeypatch.setattr(module, "_LINES", range(0))
    alone = mean_spearman(scores, labels, resamples=200)
    assert [result.value, result.low, result.high] == pytest.approx([alone.value, alone.low, alone.high], abs=1e-8)


@pytest.mark.parametrize("lines", [3, 300])
def test_pairs_are_counted_by_their_signs(monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
    """In blocks of few units, in more lines than eight bits count, with groups of equal numbers."""
    monkeypatch.setattr(module, "_AT_ONCE", 64)
    scores = np.random.default_rng(4).integers(0, 9, (lines, 30)).astype(float)
    signs = np.sign(scores[:, None, :] - scores[:, :, None]).sum(axis=0)
    np.testing.assert_array_equal(module._below(scores), signs)
