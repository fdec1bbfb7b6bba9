"""The gate of audits: coverage of its intervals, its verdicts, and how many rows would decide."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, binomtest, fisher_exact

from imharness.statistics.gate import BalancedAccuracy, coin_of

SHARES = np.unique(np.r_[np.linspace(0, 1, 51), 0.37, 0.38, 0.998, 0.002])


@cache
def ends(members: int, nonmembers: int) -> np.ndarray:
    """Return low and high for all counts of right answers, ``(members + 1, nonmembers + 1, 2)``."""
    return np.array(
        [
            [
                (accuracy.low, accuracy.high)
                for y in range(nonmembers + 1)
                for accuracy in [BalancedAccuracy.of(x, members, y, nonmembers)]
            ]
            for x in range(members + 1)
        ]
    )


@pytest.mark.parametrize("sides", [(20, 20), (20, 21), (20, 60), (30, 30)])
def test_the_interval_covers_whatever_both_shares_are(sides: tuple[int, int]) -> None:
    """All counts are enumerated over a grid of shares: each end misses in at most 2.5 %, not only on average."""
    low, high = np.moveaxis(ends(*sides), 2, 0)
    first, second = (binom.pmf(np.arange(n + 1), n, SHARES[:, None]) for n in sides)
    for i, p in enumerate(SHARES):
        for j, q in enumerate(SHARES):
            truth = (p + q) / 2
            assert first[i] @ (low > truth + 1e-12) @ second[j] <= 0.025 + 1e-9, (p, q)
            assert first[i] @ (high < truth - 1e-12) @ second[j] <= 0.025 + 1e-9, (p, q)


@pytest.mark.parametrize("sides", [(1_000, 1_000), (1_000, 100_000), (1_000_000, 1_000_000), (1_000_000, 20)])
@pytest.mark.parametrize("shares", [(0.6, 0.5), (0.999, 0.9), (0.3, 0.1)])
def test_it_covers_up_to_a_million_rows_and_is_no_wider_than_it_must_be(sides, shares) -> None:
    rng, truth, times = np.random.default_rng(3), sum(shares) / 2, 400
    counts = np.stack([rng.binomial(n, p, times) for n, p in zip(sides, shares, strict=True)], axis=1)
    accuracies = [BalancedAccuracy.of(int(x), sides[0], int(y), sides[1]) for x, y in counts]
    covered = np.mean([accuracy.low <= truth <= accuracy.high for accuracy in accuracies])
    assert covered >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / times)
    normal = 1.96 * np.sqrt(sum(p * (1 - p) / n for p, n in zip(shares, sides, strict=True)))
    assert np.mean([accuracy.high - accuracy.low for accuracy in accuracies]) <= 1.03 * normal + sum(
        1 / n for n in sides
    )


def test_it_agrees_with_fishers_test_at_a_half_and_with_clopper_and_pearson_where_one_side_is_known() -> None:
    for x, y in ((14, 14), (15, 14), (16, 13), (17, 12), (20, 8)):
        p = fisher_exact([[x, 20 - x], [25 - y, y]], alternative="greater").pvalue
        assert (p <= 0.025) == (BalancedAccuracy.of(x, 20, y, 25).low >= 0.5), (x, y)
    accuracy, one = BalancedAccuracy.of(15, 20, 10**9, 10**9), binomtest(15, 20).proportion_ci()
    assert (accuracy.low, accuracy.high) == pytest.approx(((1 + one.low) / 2, (1 + one.high) / 2), abs=1e-6)
    assert BalancedAccuracy.of(20, 20, 20, 20).low < 0.9
    assert BalancedAccuracy.of(0, 20, 0, 20).high > 0.1
    accuses_all = BalancedAccuracy.of(20, 20, 0, 20)
    assert accuses_all.low < 0.45 < 0.55 < accuses_all.high


@pytest.mark.parametrize(
    ("accuracy", "limit", "verdict", "why"),
    [
        (BalancedAccuracy.of(510, 1000, 500, 1000), 0.6, "passes", ""),
        (BalancedAccuracy.of(700, 1000, 700, 1000), 0.6, "fails", ""),
        (BalancedAccuracy.of(600, 1000, 600, 1000), 0.6, "not shown", ""),
        (BalancedAccuracy.of(200, 1000, 200, 1000), 0.6, "not shown", "below 0.5"),
        (BalancedAccuracy.of(400, 1000, 400, 1000), 0.3, "not shown", "no limit up to 0.5"),
        (BalancedAccuracy.of(30, 30, 0, 30), 0.6, "not shown", "too few for this limit"),
        (BalancedAccuracy.of(5000, 5000, 0, 3), 0.8, "not shown", "20 of each"),
    ],
)
def test_a_number_passes_only_where_nothing_speaks_against_it(
    accuracy: BalancedAccuracy, limit: float, verdict: str, why: str
) -> None:
    assert accuracy.against(limit) == verdict
    assert why in " ".join(accuracy.why_not(limit))
    assert (verdict == "passes") <= (accuracy.why_not(limit) == [])


def test_what_speaks_against_a_number_takes_the_pass_and_what_is_not_held_out_both() -> None:
    good, bad = BalancedAccuracy.of(510, 1000, 500, 1000), BalancedAccuracy.of(900, 1000, 900, 1000)

    def with_(original: BalancedAccuracy, **changes: object) -> BalancedAccuracy:
        return BalancedAccuracy(**{**vars(original), **changes})

    for accuracy, limit in ((with_(good, doubts=("Copies.",)), 0.6), (with_(good, reached=(0.61, "Another.")), 0.6)):
        assert accuracy.against(limit) == "not shown"
        assert accuracy.why_not(limit)[0] in ("Copies.", "Another.")
    assert with_(good, reached=(0.59, "Another.")).against(0.6) == "passes"
    assert with_(bad, doubts=("Copies.",)).against(0.6) == "fails"
    assert with_(bad, judges=False).against(0.6) == "not shown"


@pytest.mark.parametrize(("shares", "limit"), [((0.55, 0.55), 0.6), ((0.62, 0.62), 0.6), ((0.9, 0.1), 0.55)])
def test_the_number_of_rows_that_would_tell_does_and_half_of_it_does_not(shares, limit: float) -> None:
    few = BalancedAccuracy.of(20 * shares[0], 20, 20 * shares[1], 20)
    needed = few.rows_needed(limit)
    assert needed is not None
    for a_side, decided in ((needed // 2, True), (needed // 4, False)):
        accuracy = BalancedAccuracy.of(a_side * shares[0], a_side, a_side * shares[1], a_side)
        assert (accuracy.against(limit) != "not shown") == decided, a_side
    assert BalancedAccuracy.of(12, 20, 12, 20).rows_needed(0.6) is None


def test_a_coin_has_an_interval_as_wide_as_any() -> None:
    coin, widest = coin_of(20, 30), max(high - low for row in ends(20, 20) for low, high in row)
    assert coin.value == 0.5
    assert coin_of(20, 20).high - coin_of(20, 20).low == pytest.approx(widest)
