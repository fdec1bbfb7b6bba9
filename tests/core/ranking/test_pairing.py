"""Paired scores: from long rows to win rates, marks, rows by condition and stored vectors, checked by hand."""

from dataclasses import replace

import numpy as np
import pytest
import scipy
from tests.comparing import compare
from tests.long_rows import paired_scores

from imharness.documents.pairwise import pairwise_intervals
from imharness.documents.report import PairedScores
from imharness.ranking.comparisons import not_worse, unit_means
from imharness.ranking.tables import win_table
from imharness.statistics.bootstrap import mean_interval, mean_intervals


def pair(scores: dict[str, dict[str, list[float]]], better="higher", **facts) -> PairedScores:
    """Return paired scores from entry -> condition -> scores of the units u0, u1, ..."""
    rows = [
        (entry, condition, f"u{i}", score)
        for entry, by_condition in scores.items()
        for condition, unit_scores in by_condition.items()
        for i, score in enumerate(unit_scores)
    ]
    entries, conditions, units, values = (np.array(column) for column in zip(*rows, strict=True))
    texts = {"id": "x", "title": "Who", "about": "more", "entry": "defense", "measure": "m", "description": "M."}
    return paired_scores(entries, {"metric": conditions}, units, values, better=better, **texts, **facts)


def noise(shift: float, seed: int, n: int = 12) -> list[float]:
    """Return normal numbers around `shift`."""
    return (np.random.default_rng(seed).normal(size=n) + shift).tolist()


def test_long_rows_become_one_block_per_condition() -> None:
    paired = pair({"b": {"p": [1, 2], "q": [5]}, "a": {"p": [3, 4]}})
    assert paired.entries == ("a", "b")
    assert [dict(c) for c in paired.conditions] == [{"metric": "p"}, {"metric": "q"}]
    np.testing.assert_array_equal(paired.values[0], [[3, 4], [1, 2]])
    np.testing.assert_array_equal(paired.values[1], [[np.nan], [5]])
    assert paired.units == (("u0", "u1"), ("u0",))


def test_stored_numbers_find_their_condition_again() -> None:
    comparison, numbers = pair({"a": {"p": [1, 2], "q": [3]}, "b": {"p": [4, 5], "q": [6]}}).stored()
    assert comparison.starts() == [0, 2, 3]
    np.testing.assert_array_equal(numbers, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_allclose(unit_means(comparison, numbers), [[2, 2], [5, 5]])


def test_comparing_two_uses_shared_units_of_the_chosen_conditions() -> None:
    scores = {"a": {"p": noise(1, 0), "q": noise(0, 1)}, "b": {"p": noise(0, 2), "q": noise(0, 3)}}
    comparison, numbers = pair(scores).stored()
    result = compare(comparison, numbers, "a", "b", [0])
    d = numbers[0, :12].astype(float) - numbers[1, :12].astype(float)
    rounded = d.astype(np.float32).astype(float)
    assert result.better == pytest.approx(scipy.stats.wilcoxon(rounded, alternative="greater").pvalue, rel=1e-12)
    assert compare(comparison, numbers, "a", "b").difference.n == 12
    turned, _ = pair(scores, better="lower").stored()
    assert compare(turned, numbers, "a", "b", [0]).worse == pytest.approx(result.better)


def test_all_pairs_agree_with_one_pair() -> None:
    scores = {
        name: {"p": noise(shift, seed), "q": noise(shift, seed + 9)}
        for seed, (name, shift) in enumerate([("a", 1.5), ("b", 0.2), ("c", 0.0)])
    }
    comparison, numbers = pair(scores).stored()
    intervals = pairwise_intervals(comparison, numbers)
    for i, first in enumerate(comparison.entries):
        for j, second in enumerate(comparison.entries):
            if i != j:
                one = compare(comparison, numbers, first, second).difference
                assert (one.low, one.high) == pytest.approx((intervals.low[i, j], intervals.high[i, j]), rel=1e-9)
    assert [intervals.place(i) for i in range(3)] == [1, 2, 3]
    assert not_worse(comparison, numbers, "b") == ("a", "c")
    assert not_worse(comparison, numbers, "a") == ()


def test_intervals_of_many_rows_are_those_of_each() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 15))
    rows[1, 4] = np.nan
    rows = np.vstack([rows, np.full(15, np.nan)])
    intervals = mean_intervals(rows)
    for row, interval in zip(rows[:3], intervals, strict=False):
        single = mean_interval(row[~np.isnan(row)])
        assert interval is not None
        assert (interval.value, interval.low, interval.high, interval.n) == pytest.approx(
            (single.value, single.low, single.high, single.n)
        )
    assert intervals[3] is None


def test_an_infinite_score_is_no_number_and_stops_nothing() -> None:
    scores = {"a": {"p": [*noise(0, 0), np.inf]}, "b": {"p": [*noise(3, 1), np.inf]}}
    paired = pair(scores)
    comparison, numbers = paired.stored()
    assert np.isnan(numbers).sum(axis=1).tolist() == [1, 1]
    assert paired.rates.rate[1, 0] == 100
    assert compare(comparison, numbers, "b", "a").difference.n == 12


def test_nothing_to_compare_is_an_empty_table() -> None:
    empty = np.array([], dtype=str)
    texts = {"id": "x", "title": "t", "about": "a", "entry": "e", "measure": "m", "description": "d"}
    paired = paired_scores(empty, {"metric": empty}, empty, [], better="lower", **texts)
    comparison, numbers = paired.stored()
    assert numbers.shape == (0, 0)
    assert win_table(paired).rows == ()
    assert comparison.tests == 0


def test_conditions_that_differ_in_a_pooled_facet_are_tested_as_one() -> None:
    """One data set has eight units, the other four, too few for a test; pooled, all twelve are tested together."""
    gain = np.array([3, 1, 4, 2, 6, 5, 8, 7, -1.5, 9, 10, 11])
    names = np.array([f"u{i:02d}" for i in range(12)] * 2)
    of = np.array((["big"] * 8 + ["small"] * 4) * 2)
    texts = {"id": "x", "title": "Who", "about": "more", "entry": "defense", "measure": "m", "description": "M."}
    clusters_of_names = {name: name for name in names.tolist()}
    arguments = np.array(["a"] * 12 + ["b"] * 12), {"dataset": of, "metric": np.full(24, "m")}, names
    values = np.concatenate([gain, np.zeros(12)])
    apart = paired_scores(*arguments, values, clusters=clusters_of_names, better="higher", **texts)
    pooled = replace(apart, pooled=("dataset",))
    assert (len(apart.tested), apart.rates.tested[0, 1], apart.most) == (2, 1, 8)
    assert (len(pooled.tested), pooled.rates.tested[0, 1], pooled.most) == (1, 1, 12)
    p = scipy.stats.wilcoxon(gain, alternative="greater").pvalue
    assert 2 * p < 0.05
    assert (pooled.rates.rate[0, 1], pooled.rates.rate[1, 0]) == (100, 0)
    assert "Conditions that differ in dataset alone are one." in win_table(pooled).caption
    assert "alone are one" not in win_table(apart).caption
    assert pooled.conditions == apart.conditions
    np.testing.assert_array_equal(pooled.differences.value, apart.differences.value)


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_pairs_with_gaps_are_compared_on_the_units_that_both_have_in_each_condition(better: str) -> None:
    """The difference on a unit is the mean over the conditions in which both have a score; these are averaged."""
    gap = np.nan
    scores = {
        "a": {"p": [1, 2, 3, 4, gap, 60], "q": [5, 5, 5, 5, 5, gap]},
        "b": {"p": [0, 2, 1, gap, 50, 50], "q": [1, gap, 4, 4, 4, 4]},
        "c": {"p": [1, 1, 1, 1, 1, 1], "q": [2, 2, 2, 2, 2, 2]},
    }
    comparison, numbers = pair(scores, better=better).stored()
    intervals, sign = pairwise_intervals(comparison, numbers), 1 if better == "higher" else -1
    arrays = {label: np.array([conditions["p"], conditions["q"]], dtype=float) for label, conditions in scores.items()}
    for i, first in enumerate(comparison.entries):
        for j, second in enumerate(comparison.entries):
            if i == j:
                continue
            apart = sign * (arrays[first] - arrays[second])
            units = [apart[:, u][~np.isnan(apart[:, u])].mean() for u in range(6) if not np.isnan(apart[:, u]).all()]
            assert intervals.value[i, j] == pytest.approx(np.mean(units)), (first, second)


@pytest.mark.parametrize("coarse", [0, 1])
def test_one_condition_that_needs_64_bits_is_kept_in_64_bits(coarse: int) -> None:
    """Scores of 1e9 that differ by .01 would be equal in 32 bits; those of the other condition need only 32."""
    paired = pair({label: {name: [float(u) for u in range(8)] for name in "pq"} for label in "ab"})
    assert paired.stored()[1].dtype == np.float32
    values = list(paired.values)
    values[coarse] = 1e9 + np.array([[0.01], [0.0]]) + np.arange(8.0) / 1000
    comparison, numbers = replace(paired, values=tuple(values)).stored()
    assert numbers.dtype == np.float64
    assert pairwise_intervals(comparison, numbers).value[0, 1] == pytest.approx(0.005, rel=1e-3)
