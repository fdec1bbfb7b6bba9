"""Win rates by hand and Bradley-Terry against its likelihood equations."""

import numpy as np
import pytest
from scipy import stats

from imharness.statistics import NotTestable
from imharness.statistics.clusters import clusters_both
from imharness.statistics.win_rates import bradley_terry, win_rates


def test_a_clear_winner_wins_every_condition() -> None:
    base = np.random.default_rng(0).normal(size=(2, 30))
    result = win_rates(list(np.stack([base + 1, base], axis=1)), higher_wins=True)
    assert result.rate[0, 1] == 100
    assert result.rate[1, 0] == 0
    assert result.comparisons == 4
    assert np.isnan(result.rate[0, 0])


def test_direction_turns_the_matrix() -> None:
    base = np.random.default_rng(0).normal(size=(2, 30))
    scores = list(np.stack([base + 1, base], axis=1))
    np.testing.assert_array_equal(win_rates(scores, higher_wins=True).rate, win_rates(scores, higher_wins=False).rate.T)


def test_missing_conditions_are_not_counted() -> None:
    scores = np.random.default_rng(1).normal(size=(2, 2, 20))
    scores[0, 1] = np.nan
    result = win_rates(list(scores), higher_wins=True)
    assert result.tested[0, 1] == 1
    assert result.comparisons == 2


@pytest.mark.parametrize("at_once", [1, 100, 1 << 16])
def test_every_pair_is_tested_as_scipy_tests_it(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    from imharness.statistics import wilcoxon
    from imharness.statistics import win_rates as module

    rng = np.random.default_rng(2)
    scores = rng.normal(size=(7, 60)) + np.linspace(0, 1, 7)[:, None]
    scores[4:] = scores[4:].round(1)
    scores[3, :30] = np.nan
    won = np.full((7, 7), np.nan)
    for i, j in zip(*np.nonzero(~np.eye(7, dtype=bool)), strict=True):
        gap = scores[i] - scores[j]
        gap = gap[~np.isnan(gap) & (gap != 0)]
        won[i, j] = stats.wilcoxon(gap, alternative="greater").pvalue * 42 < 0.05
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    monkeypatch.setattr(wilcoxon, "_AT_ONCE", at_once)
    rates = win_rates([scores], higher_wins=True)
    assert rates.comparisons == 42
    np.testing.assert_array_equal(rates.rate, 100 * won)


@pytest.mark.parametrize("images", [60, 5792, 6001])
def test_pairs_of_single_clusters_are_tested_as_scipy_tests_their_rounded_differences(images: int) -> None:
    """Few and many ties, zeros, and rank sums that 32 bits hold exactly or not."""
    rng = np.random.default_rng(3)
    scores = (rng.normal(size=(6, images)) + np.linspace(0, 0.05, 6)[:, None]).astype(np.float32)
    scores[2:4] = scores[2:4].round(1)
    scores[4, : images // 3] = scores[5, : images // 3]
    names = [f"i{k}" for k in range(images)]
    for i, j in zip(*np.triu_indices(6, 1), strict=True):
        gap = (scores[i].astype(float) - scores[j]).astype(np.float32)
        up, down = (p[0] for p in clusters_both(scores[i] - scores[j], names))
        for p_value, differences in ((up, gap[gap != 0]), (down, -gap[gap != 0])):
            assert p_value == pytest.approx(
                stats.wilcoxon(differences.astype(float), alternative="greater").pvalue, rel=1e-9
            )
    single, double = (
        win_rates([kind, kind[:, ::-1]], higher_wins=True, clusters=[names] * 2)
        for kind in (scores, scores.astype(np.float64))
    )
    np.testing.assert_array_equal(single.rate, double.rate)


def test_wins_on_shares_of_32_bits_are_those_on_whole_numbers() -> None:
    """Six entries on 40 clusters of two or three images: shares of 60 pairs, so that many differences are equal."""
    rng = np.random.default_rng(5)
    counts = np.clip(rng.integers(5, 50, (1, 90)) + np.arange(6)[:, None] + rng.integers(-4, 5, (6, 90)), 0, 60)
    names = rng.permutation(np.arange(90) % 40)
    shares = [(block / 60 * 100).astype(np.float32) for block in (counts, counts[:, ::-1])]
    stored, exact = (
        win_rates(kind, higher_wins=True, clusters=[names] * 2) for kind in (shares, [counts, counts[:, ::-1]])
    )
    np.testing.assert_array_equal(stored.rate, exact.rate)
    for i, j in zip(*np.triu_indices(6, 1), strict=True):
        gaps = shares[0][i].astype(float) - shares[0][j], counts[i] - counts[j]
        near = 1e-6 * shares[0].max()
        np.testing.assert_allclose(clusters_both(gaps[0], names, near), clusters_both(gaps[1], names, 1e-9), rtol=1e-12)


def test_identical_entries_are_not_testable() -> None:
    assert np.isnan(win_rates([np.ones((2, 9))], higher_wins=True).rate).all()


def test_bradley_terry_of_two_is_the_log_odds() -> None:
    strengths = bradley_terry([[0, 30], [10, 0]])
    assert strengths[0] - strengths[1] == pytest.approx(np.log(3), abs=1e-10)


def test_bradley_terry_solves_the_score_equations() -> None:
    wins = np.random.default_rng(2).integers(1, 20, (5, 5)).astype(float)
    np.fill_diagonal(wins, 0)
    s = bradley_terry(wins)
    expected = (wins + wins.T) / (1 + np.exp(s[None, :] - s[:, None]))
    np.testing.assert_allclose(expected.sum(axis=1), wins.sum(axis=1), rtol=1e-9)


def test_bradley_terry_without_a_finite_solution_says_so() -> None:
    with pytest.raises(NotTestable, match="never"):
        bradley_terry([[0, 3], [0, 0]])


@pytest.mark.parametrize("wins", [[[0, 3, 1], [2, 0, 4]], [[0, 3], [-1, 0]], [[0, 3], [np.inf, 0]], [1, 2]])
def test_bradley_terry_takes_counts_of_all_pairs_alone(wins: list) -> None:
    with pytest.raises(NotTestable, match="expected a square matrix of counts"):
        bradley_terry(wins)
