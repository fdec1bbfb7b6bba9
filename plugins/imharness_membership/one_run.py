"""Lower bounds of epsilon from one training run with canaries that independent coins put into the training set.

Steinke, Nasr & Jagielski, "Privacy Auditing with One (1) Training Run" (NeurIPS 2023): whoever guesses r of m coins
from the output of an (epsilon, delta)-private algorithm is right at least v times with a probability of at most
P[B >= v] + 2 m delta max_i P[v > B >= v - i] / i, where B is binomial with r trials of probability 1 / (1 + e^-epsilon)
(their theorem for approximate differential privacy). All epsilons for which this is below 1 - confidence are ruled out.

Mahloujifar, Melis & Chaudhuri, "Auditing f-Differential Privacy in One Run" (ICML 2025), put a whole trade-off curve to
the test, here that of a Gaussian mechanism (Dong, Roth & Su, "Gaussian Differential Privacy", JRSS B 2022).
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import binom, binomtest

from imharness.errors import UsageError
from imharness.questions import CanaryScores, LowerBound, OneRunBounds

Array = np.ndarray
SHARES = (1 / 32, 1 / 8, 1 / 2)
"""The shares of the canaries that are guessed, where their number was not chosen beforehand: few for leaks that show in
some canaries alone, many for those that show in all alike."""
FEWEST = 20
UNFAIR = 1e-6
"""Coins that are fair give so uneven numbers of canaries with at most this probability."""
LARGEST_MU, GRID = 32.0, 33
CLOSE = 1e-4
"""How near to its limit a bound is computed; it is rounded down."""


def one_run_bounds(asked: CanaryScores) -> OneRunBounds:
    """Return the lower bounds of epsilon; raises `UsageError` for too few canaries, or coins that were not fair.

    The canaries with the highest scores are guessed as included, as many with the lowest as left out. Equal scores are
    ordered at random, so that the order of the canaries says nothing.
    """
    m, inside = len(asked.scores), int(asked.included.sum())
    if m < FEWEST:
        raise UsageError(f"scores: at least {FEWEST} canaries are needed, got {m}.")
    if binomtest(inside, m).pvalue < UNFAIR:
        raise UsageError(
            f"included: {inside} of {m} canaries are included, which fair coins hardly give; the bound holds only if "
            "an independent fair coin decided about each of them."
        )
    tried = _numbers(m, asked.guesses)
    right = _right(asked.scores, asked.included, tried)
    level = (1 - asked.confidence) / len(tried)
    general = [epsilon_bound(v, r, m, asked.delta, level) for v, r in zip(right, tried, strict=True)]
    mus = [gaussian_bound(v, r, m, level) for v, r in zip(right, tried, strict=True)]
    first, second = int(np.argmax(general)), int(np.argmax(mus))
    return OneRunBounds(
        any_algorithm=LowerBound(general[first], tried[first], right[first]),
        gaussian=LowerBound(epsilon_of_gaussian(mus[second], asked.delta), tried[second], right[second]),
        mu=mus[second],
        delta=asked.delta,
        confidence=asked.confidence,
        canaries=m,
        included=inside,
        tried=tried,
    )


def _numbers(m: int, guesses: int | None) -> tuple[int, ...]:
    """Return the even numbers of guesses that are tried."""
    if guesses is None:
        return tuple(sorted({max(2, 2 * int(share * m / 2)) for share in SHARES}))
    if not 2 <= guesses <= m:
        raise UsageError(f"guesses: expected a number from 2 to {m}, the number of canaries, got {guesses}.")
    return (2 * (guesses // 2),)


def _right(scores: Array, included: Array, tried: tuple[int, ...]) -> list[int]:
    """Return for each number of guesses how many of them are right."""
    mixed = np.random.default_rng(0).permutation(len(scores))
    order = mixed[np.argsort(scores[mixed], kind="stable")]
    low, high = np.cumsum(~included[order]), np.cumsum(included[order[::-1]])
    return [int(low[r // 2 - 1] + high[r // 2 - 1]) for r in tried]


def p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return the most probable that so many guesses are right if the algorithm is (epsilon, delta)-private.

    Steinke, Nasr & Jagielski (NeurIPS 2023); see the head of this file.
    """
    share = 1 / (1 + np.exp(-epsilon))
    tails = binom.sf(np.arange(right - 1, -2, -1), guesses, share)  # P[B >= right], P[B >= right - 1], ..., P[B >= 0]
    extra = np.max((tails[1:] - tails[0]) / np.arange(1, right + 1), initial=0.0)
    return float(min(1.0, tails[0] + 2 * canaries * delta * extra))


@lru_cache(maxsize=1 << 14)
def epsilon_bound(right: int, guesses: int, canaries: int, delta: float, level: float) -> float:
    """Return the largest epsilon that `p_value` rules out at a level, at least 0."""
    return _root(lambda epsilon: level - p_value(right, guesses, canaries, epsilon, delta))


@lru_cache(maxsize=1 << 14)
def gaussian_bound(right: int, guesses: int, canaries: int, level: float) -> float:
    """Return the largest mu whose Gaussian trade-off curve is ruled out at a level, at least 0."""
    low, high = 0.0, LARGEST_MU
    while high - low > CLOSE:
        grid = np.linspace(low, high, GRID)
        kept = _is_possible(right, guesses, canaries, grid, level)
        first = int(np.argmax(kept)) if kept.any() else GRID - 1
        if first == 0:
            return low
        low, high = float(grid[first - 1]), float(grid[first])
    return low


def _is_possible(right: int, guesses: int, canaries: int, mu: Array, level: float) -> Array:
    """Return for each mu whether so many right guesses are as probable as `level` under its curve.

    Mahloujifar, Melis & Chaudhuri (ICML 2025), their recursion for two answers with abstention. From `right` guesses
    down to none, `h` and `r` bound the probability of a wrong and of a right further guess; the curve bounds one by the
    other.
    """
    r, h = np.full_like(mu, level * right / canaries), np.full_like(mu, level * (guesses - right) / canaries)
    for i in range(right - 1, -1, -1):
        wrong = np.maximum(h, ndtr(ndtri(r) - mu))
        r = np.minimum(r + i / (guesses - i) * (wrong - h), 1.0)
        h = wrong
    return r + h <= guesses / canaries


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    """Return the least epsilon at which a Gaussian mechanism with parameter mu is (epsilon, delta)-private.

    Balle & Wang, "Improving the Gaussian Mechanism for Differential Privacy" (ICML 2018), theorem 8.
    """
    if mu <= 0:
        return 0.0

    def surplus(epsilon: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)) - delta)

    return _root(surplus)


def _root(surplus: Callable[[float], float]) -> float:
    """Return where a falling function reaches 0, rounded down; 0 if it is below 0 everywhere."""
    if surplus(0.0) <= 0:
        return 0.0
    high = 1.0
    while surplus(high) > 0 and high < 1e3:
        high *= 2
    return float(max(0.0, brentq(surplus, 0.0, high, xtol=CLOSE) - CLOSE)) if surplus(high) <= 0 else high
