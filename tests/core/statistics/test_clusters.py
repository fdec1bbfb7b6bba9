"""Units that come from one source: levels and coverage by simulation, and equality with plain slow loops."""

import numpy as np
import pytest
import scipy
from tests.comparing import compare

from imharness.documents.pairwise import pairwise_intervals
from imharness.documents.report import PairedScores
from imharness.leaderboard import (
    Blocks,
    Column,
    NotTestable,
    Value,
    Wins,
    chosen_half,
    interval,
    mean_interval,
    mean_value,
    ranking,
    spearman_rows,
    t_interval,
    value_of,
)
from imharness.ranking.comparisons import not_worse
from imharness.statistics import bootstrap as module
from imharness.statistics.bootstrap import RESAMPLES, drawn, mean_intervals, one_sided_alpha, percentiles, resampled
from imharness.statistics.clusters import FEWEST, cluster_means, clusters_greater, coded, kinds
from imharness.statistics.head_to_head import head_to_head
from imharness.statistics.wilcoxon import rank_biserial
from imharness.statistics.win_rates import win_rates

RNG = np.random.default_rng(0)
NAMES = np.array([f"photo {i}" for i in (3, 0, 1, 5, 2, 6, 4, 7)])
CLUSTERS = NAMES[np.repeat(np.arange(8), [1, 2, 3, 4, 5, 6, 7, 12])]
X = RNG.normal(size=40) + np.repeat(RNG.normal(size=8), [1, 2, 3, 4, 5, 6, 7, 12])


def correlated(rng: np.random.Generator, clusters: int, size: int = 6) -> np.ndarray:
    """Values of units that share nine tenths of their variance with their cluster."""
    return np.repeat(rng.normal(scale=3, size=clusters), size) + rng.normal(size=clusters * size)


def loop_of_means(x: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    names = list(dict.fromkeys(clusters.tolist()))
    averages = []
    for row in np.concatenate(list(resampled(len(names)))):
        drawn = [value for k in row for value in x[clusters == names[k]]]
        averages.append(np.mean(drawn))
    return np.array(averages)


def test_intervals_equal_a_loop_over_drawn_clusters() -> None:
    estimates = loop_of_means(X, CLUSTERS)
    low, high = percentiles(estimates, 8)
    single = mean_interval(X, CLUSTERS)
    assert (single.low, single.high) == pytest.approx((low, high), rel=1e-12)
    assert (single.n, single.clusters, single.value) == (40, 8, X.mean())
    general = interval(lambda at: X[at].mean(axis=1), 40, CLUSTERS)
    (row, gaps) = mean_intervals(np.stack([X, np.where(CLUSTERS == "photo 5", np.nan, X)]), CLUSTERS)
    for result in (general, row):
        assert (result.low, result.high, result.clusters) == pytest.approx((low, high, 8), rel=1e-12)
    assert (gaps.n, gaps.clusters) == (36, 7)
    assert gaps == mean_interval(X[CLUSTERS != "photo 5"], CLUSTERS[CLUSTERS != "photo 5"])


def test_any_statistic_sees_all_units_of_the_drawn_clusters() -> None:
    y = RNG.normal(size=40)
    names, seen = list(dict.fromkeys(CLUSTERS.tolist())), []
    result = interval(lambda at: spearman_rows(X[at], y[at]), 40, CLUSTERS)
    for row in np.concatenate(list(resampled(8))):
        at = np.concatenate([np.flatnonzero(names[k] == CLUSTERS) for k in row])
        seen.append(scipy.stats.spearmanr(X[at], y[at]).statistic)
    assert (result.low, result.high) == pytest.approx(tuple(map(float, percentiles(np.array(seen), 8))), rel=1e-9)


def test_clusters_of_one_unit_are_drawn_as_units_are() -> None:
    clustered_interval, alone = mean_interval(X, np.arange(40)), mean_interval(X)
    assert (alone.clusters, clustered_interval.clusters) == (None, 40)
    assert (alone.low, alone.high) == pytest.approx((clustered_interval.low, clustered_interval.high), rel=1e-12)
    few = interval(lambda at: X[: FEWEST - 1][at].mean(axis=1), FEWEST - 1), mean_interval(X[: FEWEST - 1])
    assert np.isnan([end for one in few for end in (one.low, one.high)]).all()


@pytest.mark.parametrize("units", [5, 8, 24])
def test_the_interval_of_few_independent_units_covers_their_mean(units: int) -> None:
    """Plain percentiles would cover .84, .88 and .93."""
    draws = np.random.default_rng(units).normal(size=(1000, units))
    covered = [one.low <= 0 <= one.high for one in mean_intervals(draws) if one is not None]
    assert np.mean(covered) > {5: 0.9, 8: 0.91, 24: 0.935}[units]


@pytest.mark.parametrize("clusters", [8, 20])
def test_the_interval_covers_the_mean_at_its_level(clusters: int) -> None:
    rng, hits, alone = np.random.default_rng(clusters), 0, 0
    names = np.repeat(np.arange(clusters), 6)
    for _ in range(400):
        x = correlated(rng, clusters)
        result, wrong = mean_interval(x, names), mean_interval(x)
        hits += result.low <= 0 <= result.high
        alone += wrong.low <= 0 <= wrong.high
    assert 0.90 < hits / 400 < 0.98
    assert alone / 400 < 0.70


@pytest.mark.parametrize("splits", [3, 5])
def test_few_splits_are_covered_by_student_s_interval(splits: int) -> None:
    rng, hits = np.random.default_rng(splits), 0
    for _ in range(1500):
        result = t_interval(rng.normal(size=splits))
        hits += result.low <= 0 <= result.high
    assert hits / 1500 == pytest.approx(0.95, abs=0.02)


def test_student_s_interval_is_scipy_s_and_one_split_has_none() -> None:
    x = np.array([0.61, 0.58, 0.66])
    result, theirs = t_interval(x), scipy.stats.ttest_1samp(x, 0).confidence_interval()
    assert (result.low, result.high) == pytest.approx((theirs.low, theirs.high), rel=1e-12)
    assert value_of(t_interval([0.5])) == Value(value=0.5, n=1)
    for bad in ([], [1.0, np.nan]):
        with pytest.raises(NotTestable):
            t_interval(bad)


def test_too_few_clusters_have_no_interval_and_no_test() -> None:
    names = np.repeat(np.arange(FEWEST - 1), 10)
    assert mean_value(np.arange(40.0), names) == Value(value=19.5, n=40, clusters=4)
    assert np.isnan(clusters_greater(np.ones((2, 40)), names)).all()
    assert np.isnan(one_sided_alpha(FEWEST - 1))
    assert clusters_greater(np.ones(50), np.repeat(np.arange(FEWEST), 10))[0] == pytest.approx(1 / 32)


def test_a_test_by_cluster_is_scipy_s_over_the_means() -> None:
    means = [X[name == CLUSTERS].mean() for name in dict.fromkeys(CLUSTERS.tolist())]
    np.testing.assert_allclose(cluster_means(X[None], CLUSTERS)[0], means, rtol=1e-14)
    theirs = scipy.stats.wilcoxon(means, alternative="greater").pvalue
    assert clusters_greater(X, CLUSTERS)[0] == pytest.approx(theirs, rel=1e-12)
    codes, size = coded(CLUSTERS)
    assert (codes[0], codes[1], size) == (0, 1, 8)


def test_equal_entries_on_correlated_units_are_told_apart_no_more_often_than_stated() -> None:
    """Nine tenths of the variance are between eight clusters; tested by unit, a third of pairs would differ."""
    rng, wrong, by_unit = np.random.default_rng(5), 0, 0
    names = np.repeat(np.arange(8), 6)
    for _ in range(300):
        both = np.stack([correlated(rng, 8), correlated(rng, 8)])
        rates = win_rates([both], higher_wins=True, clusters=[names])
        plain = win_rates([both], higher_wins=True)
        wrong += np.nansum(rates.rate) > 0
        by_unit += np.nansum(plain.rate) > 0
    assert wrong / 300 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)
    assert by_unit / 300 > 0.3


def test_a_head_to_head_takes_each_cluster_once() -> None:
    d = X.astype(np.float32).astype(float)
    result = head_to_head(d, np.arange(40) % 8, alpha=0.01)
    means = d.reshape(5, 8).mean(axis=0).astype(np.float32).astype(float)
    wanted = scipy.stats.ttest_1samp(means, 0).confidence_interval(0.99)
    assert (result.difference.low, result.difference.high) == pytest.approx((wanted.low, wanted.high), rel=1e-6)
    assert (result.difference.n, result.difference.clusters) == (40, 8)
    assert result.better == pytest.approx(scipy.stats.wilcoxon(means, alternative="greater").pvalue)
    assert result.effect == pytest.approx(rank_biserial(np.array([means]))[0])


def clustered(shift: float = 0.0, clusters: int = 8, seed: int = 0) -> PairedScores:
    """Two entries in two conditions, of which the second lacks the last unit."""
    rng = np.random.default_rng(seed)
    units = tuple(f"u{i:02d}" for i in range(clusters * 3))
    names = tuple(f"photo {i // 3}" for i in range(clusters * 3))
    blocks = [np.stack([correlated(rng, clusters, 3) + shift, correlated(rng, clusters, 3)]) for _ in range(2)]
    return PairedScores(
        id="x",
        title="Who",
        about="more",
        entry="defense",
        measure="m",
        description="M.",
        better="higher",
        entries=("a", "b"),
        conditions=({"metric": "p"}, {"metric": "q"}),
        units=(units, units[:-1]),
        values=(blocks[0].astype(np.float32), blocks[1][:, :-1].astype(np.float32)),
        clusters=(names, names[:-1]),
        cluster_unit="photograph",
    )


def test_a_stored_comparison_keeps_the_cluster_of_each_unit() -> None:
    comparison, numbers = clustered(shift=9.0).stored()
    assert comparison.clusters == (clustered().clusters[0], clustered().clusters[0][:-1])
    again = type(comparison).model_validate_json(comparison.model_dump_json())
    assert again == comparison
    result = compare(again, numbers, "a", "b")
    assert (result.difference.n, result.difference.clusters) == (24, 8)
    assert result.better == pytest.approx(2.0**-8)
    assert result.difference.low == pytest.approx(pairwise_intervals(comparison, numbers).low[0, 1], rel=1e-9)
    assert not_worse(comparison, numbers, "a") == ()
    few, stored_numbers = clustered(shift=9.0, clusters=4).stored()
    assert not_worse(few, stored_numbers, "a") == ("b",)
    assert few.tests == 0


def test_a_column_names_the_fact_that_units_are_grouped_by() -> None:
    names = np.array([f"u{i:02d}" for i in range(12)], dtype=object)
    source = np.array(["p0", "p0", "p1", "p1", "p2", "p2", "p3", "p3", "p4", "p4", None, ""], dtype=object)
    values = np.stack([np.arange(12.0), np.append(np.arange(11.0), np.nan)])
    scores = Blocks(
        ("a", "b"), ({"c": "1"}, {"c": "2"}), (names, names), {"d": (values, values + 2)}, {"source": (source, source)}
    )
    wins = Wins("wins", "Who wins", "lower D")
    column = Column("d", "D", "How far.", "lower", cluster="source", cluster_unit="photograph", wins=wins)
    report = ranking(scores, column, id="t", title="T", caption="", entry="x")
    a, b = (row.values["d"] for row in report.tables[0].rows[::-1])
    groups = [*source[:10], "u10", "u11"]
    assert a == mean_value(np.arange(12.0) + 1, groups)
    assert (a.n, a.clusters, b.n, b.clusters) == (12, 7, 11, 6)
    assert (report.tables[0].columns[0].unit, report.tables[0].columns[0].cluster_unit) == ("image", "photograph")
    assert report.comparisons[0].clusters == (tuple(groups), tuple(groups))
    assert report.comparisons[0].stored()[0].cluster_unit == "photograph"


def test_halves_are_fixed_by_names_and_equal_as_can_be() -> None:
    names = np.array([f"photo {i % 7}" for i in range(50)])
    chosen = chosen_half(names)
    assert len(set(names[chosen])) == 3
    assert not set(names[chosen]) & set(names[~chosen])
    np.testing.assert_array_equal(chosen_half(names[::-1]), chosen[::-1])
    assert chosen_half(["one"]).tolist() == [False]
    assert chosen_half([]).shape == (0,)
    # Of the four SHA-256 digests that of "d", 18ac..., is the smallest.
    assert chosen_half(["a", "b", "c", "d"]).tolist() == [False, False, True, True]


@pytest.mark.parametrize("k", [2, 20, 700])
def test_draws_are_uniform_and_independent_of_each_other(k: int) -> None:
    draws = np.concatenate(list(resampled(k)))
    assert draws.shape == (RESAMPLES, k)
    assert scipy.stats.chisquare(np.bincount(draws.ravel(), minlength=k)).pvalue > 1e-3
    for first, second in ((draws[:, 0], draws[:, 1]), (draws[:-1, 0], draws[1:, 0])):
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


def test_draws_are_the_same_in_batches_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(resampled(20)))
    monkeypatch.setattr(module, "_IN_CACHE", 60)
    assert [len(batch) for batch in resampled(20, range(500, 510))] == [3, 3, 3, 1]
    np.testing.assert_array_equal(np.concatenate(list(resampled(20, range(500, 510)))), whole[500:510])
    counts = np.stack([np.bincount(draw, minlength=20) for draw in whole])
    for capacity in (20 * RESAMPLES, 0):
        monkeypatch.setattr(module, "_REUSED", capacity)
        module._reused_draws.cache_clear()
        np.testing.assert_array_equal(np.concatenate(list(drawn(20))), counts)


def test_resamples_that_are_looked_at_in_parts_are_the_same_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def mean(at: np.ndarray) -> np.ndarray:
        assert at.size <= module._AT_ONCE or len(at) == 1
        return X[at].mean(axis=1)

    whole = interval(mean, 40, CLUSTERS), interval(mean, 40)
    monkeypatch.setattr(module, "_AT_ONCE", 2000)
    assert (interval(mean, 40, CLUSTERS), interval(mean, 40)) == whole


@pytest.mark.parametrize("shape", [(5, 0), (1, 1), (30, 4), (26, 40)])
def test_kinds_of_rows_are_those_of_numpy(shape: tuple[int, int]) -> None:
    masks = np.random.default_rng(0).random((shape[0] // 2 + 1, shape[1]))[np.arange(shape[0]) // 2] < 0.5
    rows, kind = np.unique(masks, axis=0, return_inverse=True)
    for result, expected in zip(kinds(masks), (rows, kind.ravel()), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("names", [["b", "a", "b", "c"], [3, 1, 3, 2]])
def test_clusters_are_counted_in_the_order_in_which_they_come(names: list) -> None:
    for cluster_names in (np.array(names), np.array(names, dtype=object)):
        codes, count = coded(cluster_names)
        assert (codes.tolist(), count) == ([0, 1, 0, 2], 3)
