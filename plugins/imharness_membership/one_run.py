"""Lower bounds of epsilon from one training run with canaries that independent coins put into the training set.

Steinke, Nasr & Jagielski, "Privacy Auditing with One (1) Training Run" (NeurIPS 2023): whoever guesses r of m coins
from the output of an (epsilon, delta)-private algorithm is right at least v times with a probability of at most
P[B >= v] + 2 m delta max_i P[v > B >= v - i] / i, where B is binomial with r trials of probability 1 / (1 + e^-epsilon)
(their theorem for approximate differential privacy). All epsilons for which this is below 1 - confidence are ruled out.

Mahloujifar, Melis & Chaudhuri, "Auditing f-Differential Privacy in One Run" (ICML 2025), put a whole trade-off curve to
the test, here that of a Gaussian mechanism (Dong, Roth & Su, "Gaussian Differential Privacy", JRSS B 2022).

Both hold however the canaries act on each other, and pay for it: an algorithm may spend its privacy on a rare run in
which all canaries show at once. Where each canary shows in its own score alone, and its errors trade off at best as
those of a Gaussian mechanism with parameter mu, its score is a random function of a draw from N(0, 1) without it and
from N(mu, 1) with it (Blackwell, "Equivalent Comparisons of Experiments", 1953; Dong, Roth & Su, theorem 2). Given
these draws the coins are independent, so no guesses are right more often than those about the draws furthest from
mu / 2, whose number of right ones has a known law. Xiang, Wang, Xiao, Tian & Wang, "Tight Privacy Audit in One Run"
(2025), use order statistics of guesses to the same end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from scipy.special import bdtr, expit, log_ndtr, ndtr, ndtri

from imharness.errors import UsageError

Array = np.ndarray
SHARES = {1 / 32: 0.1, 1 / 8: 0.8, 1 / 2: 0.1}
"""Share of the canaries that is guessed -> its portion of the probability of an error. All three shares are tried if
the number of guesses was not chosen beforehand. An eighth is best for Gaussian noise of any size, a small share for
leaks that show in some canaries alone, a large share for leaks that show a little in all canaries."""
HALF = 1 / 2
"""The share that is guessed for the bound of independent canaries; it is near the best from an epsilon of 0.5 to 8."""
NODES, WEIGHTS = (np.polynomial.legendre.leggauss(48) + np.array([[1.0], [0.0]])) / 2
"""Points and weights of a quadrature over [0, 1]."""
FEWEST = 20
"""The smallest number of canaries."""
UNFAIR = 1e-6
"""Coins count as unfair if fair ones give so uneven numbers of canaries with less than this probability."""
REVERSED = 1e-4
"""Scores count as reversed if scores that say nothing give so few right guesses with less than this probability."""
FINE = 1e-3
"""Scores whose distance from a multiple of 1e-4 is at most this share of 1e-4 may be rounded to four decimals."""
LARGEST_MU, GRID = 32.0, 33
"""The largest mu that is tried, and the number of values that are tried at a time."""
CLOSE = 1e-4
"""The precision with which a bound is computed; it is rounded down."""


@dataclass(frozen=True)
class LowerBound:
    """A lower bound of epsilon, and the guesses that gave it.

    Args:
        epsilon: at least 0; with the confidence of the audit, the true epsilon at this delta is not below it.
        guesses: how many canaries were guessed, half of them as included and half of them as left out.
        right: how many of these guesses are right.
    """

    epsilon: float
    guesses: int
    right: int


@dataclass(frozen=True)
class OneRunBounds:
    """The lower bounds of epsilon that one training run shows.

    Args:
        any_algorithm: holds for every algorithm (Steinke, Nasr & Jagielski, NeurIPS 2023).
        gaussian: holds for algorithms with the trade-off of errors of a Gaussian mechanism, such as noisy gradients of
            all rows (Mahloujifar, Melis & Chaudhuri, ICML 2025); for DP-SGD with sampling it is an approximation.
        independent: holds for the same algorithms, if no canary influences the score of another.
        mu: the parameter of the least private Gaussian mechanism that `gaussian` rules out, 1 / the noise multiplier.
        canaries, included: number of all canaries, and of those that the coins put into the training set.
        tried: the numbers of guesses that were tried for the first two bounds; the probability of an error is divided
            among these numbers.
        doubt: a sentence if scores or coins look reversed, or "".
    """

    any_algorithm: LowerBound
    gaussian: LowerBound
    independent: LowerBound
    mu: float
    delta: float
    confidence: float
    canaries: int
    included: int
    tried: tuple[int, ...]
    doubt: str = ""


def one_run_bounds(
    scores: Array, included: Array, delta: float, confidence: float, guesses: int | None = None
) -> OneRunBounds:
    """Return the lower bounds of epsilon; raises `UsageError` for too few or repeated canaries, or unfair coins.

    Args:
        scores: ``(m,)``, finite, higher for canaries that were rather in the training set.
        included: bool ``(m,)``, what the coins said.
        delta: the delta of the (epsilon, delta)-differential privacy that is put to the test, in [0, 1).
        confidence: the probability with which the bound holds, in (0, 1).
        guesses: how many canaries are guessed, chosen before the scores were seen; None: several numbers are tried and
            paid for. The others are abstained from.

    The canaries with the highest scores are guessed as included, as many with the lowest as left out. Equal scores are
    ordered at random, so that the order of the canaries says nothing.
    """
    m, inside = len(scores), int(included.sum())
    if m < FEWEST:
        raise UsageError(f"scores: at least {FEWEST} canaries are needed, got {m}.")
    if 2 * bdtr(min(inside, m - inside), m, 0.5) < UNFAIR:
        raise UsageError(
            f"included: {inside} of {m} canaries are included, which fair coins hardly give; the bound holds only if "
            "an independent fair coin decided about each of them."
        )
    if repeated := _repeated(scores, included):
        raise UsageError(
            f"scores: {repeated} canaries have the score and the coin of another; each canary has a coin of its own, "
            "so list each once."
        )
    level = 1 - confidence
    # the numbers of guesses, and how many of them are right
    portions = _numbers(m, guesses)
    tried, half = tuple(portions), _even(HALF, m) if guesses is None else max(portions)
    *right, right_of_half = _right(scores, included, (*tried, half))
    # the bounds for each number of guesses that is tried, of which the largest counts
    epsilons, mus = [], []
    for number, number_right in zip(tried, right, strict=True):
        portion = level * portions[number]
        epsilons.append(epsilon_bound(number_right, number, m, delta, portion))
        mus.append(gaussian_bound(number_right, number, m, portion))
    first, second = int(np.argmax(epsilons)), int(np.argmax(mus))
    independent_mu = independent_bound(right_of_half, half, m, level)
    return OneRunBounds(
        any_algorithm=LowerBound(epsilons[first], tried[first], right[first]),
        gaussian=LowerBound(epsilon_of_gaussian(mus[second], delta), tried[second], right[second]),
        independent=LowerBound(epsilon_of_gaussian(independent_mu, delta), half, right_of_half),
        mu=mus[second],
        delta=delta,
        confidence=confidence,
        canaries=m,
        included=inside,
        tried=tried,
        doubt=_reversed(right_of_half, half),
    )


def _repeated(scores: Array, included: Array) -> int:
    """Return how many canaries repeat the score and the coin of another, if most scores are repeated; 0 otherwise.

    Rounded scores, and scores with few values, are equal by chance. So scores that are exact in half precision or in
    four decimals do not count towards "most", nor do scores whose canaries have different coins.
    """
    values, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    inside = np.bincount(which, included)
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    fine = (halves != values) & (np.abs(values - values.round(4)) > 1e-4 * FINE)
    agree = (counts > 1) & ((inside == 0) | (inside == counts))
    repeated = int((agree & fine).sum())
    return int((counts - 1)[agree].sum()) if repeated >= FEWEST and repeated > len(values) / 2 else 0


def _reversed(right: int, guesses: int) -> str:
    """Return a sentence if wrong guesses are more frequent than chance explains, or ""."""
    if bdtr(right, guesses, 0.5) >= REVERSED:
        return ""
    return (
        f"Only {right} of {guesses} guesses are right, which chance does not explain: scores or the inclusion look "
        "reversed. A higher score must mean that the model knows the canary rather, as minus its loss does."
    )


def _numbers(m: int, guesses: int | None) -> dict[int, float]:
    """Return number of guesses to try -> its portion of the probability of an error.

    Numbers are even, and portions sum to 1. `guesses`: the number that was chosen beforehand; None: those of `SHARES`.
    """
    if guesses is not None:
        if not 2 <= guesses <= m:
            raise UsageError(f"guesses: expected a number from 2 to {m}, the number of canaries, got {guesses}.")
        return {2 * (guesses // 2): 1.0}
    portions: dict[int, float] = {}
    for share, portion in SHARES.items():
        portions[_even(share, m)] = portions.get(_even(share, m), 0.0) + portion
    return portions


def _even(share: float, m: int) -> int:
    """Return a share of m canaries, rounded down to an even number of at least 2."""
    return max(2, 2 * int(share * m / 2))


def _right(scores: Array, included: Array, tried: tuple[int, ...]) -> list[int]:
    """Return for each number of guesses how many of them are right."""
    mixed = np.random.default_rng(0).permutation(len(scores))
    order = mixed[np.argsort(scores[mixed], kind="stable")]
    # right guesses about the k + 1 lowest and about the k + 1 highest scores
    low, high = np.cumsum(~included[order]), np.cumsum(included[order[::-1]])
    return [int(low[number // 2 - 1] + high[number // 2 - 1]) for number in tried]


def p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return the largest probability of so many right guesses or more that (epsilon, delta)-privacy allows.

    Steinke, Nasr & Jagielski (NeurIPS 2023); see the head of this file.
    """
    share = 1 / (1 + np.exp(-epsilon))
    # P[B >= right], P[B >= right - 1], ..., P[B >= 0]
    tails = scipy.stats.binom.sf(np.arange(right - 1, -2, -1), guesses, share)
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
        possible = _is_possible(right, guesses, canaries, grid, level)
        first = int(np.argmax(possible)) if possible.any() else GRID - 1
        if first == 0:
            return low
        low, high = float(grid[first - 1]), float(grid[first])
    return low


def _is_possible(right: int, guesses: int, canaries: int, mu: Array, level: float) -> Array:
    """Return for each mu whether so many right guesses are as probable as `level` under its curve.

    Mahloujifar, Melis & Chaudhuri (ICML 2025), their recursion for two answers with abstention. From i = `right` down
    to 0, h_i and r_i bound the probability of a wrong and of a right further guess; the curve bounds one by the other:
    h_i = max(h_i+1, Phi(Phi^-1(r_i+1) - mu)) and r_i = min(1, r_i+1 + i / (guesses - i) (h_i - h_i+1)). The number is
    possible if r_0 + h_0 is at most the share of the canaries that are guessed.
    """
    r, h = np.full_like(mu, level * right / canaries), np.full_like(mu, level * (guesses - right) / canaries)
    for i in range(right - 1, -1, -1):
        wrong = np.maximum(h, ndtr(ndtri(r) - mu))
        r = np.minimum(r + i / (guesses - i) * (wrong - h), 1.0)
        h = wrong
    return r + h <= guesses / canaries


@lru_cache(maxsize=1 << 14)
def independent_bound(right: int, guesses: int, canaries: int, level: float) -> float:
    """Return the largest mu that is ruled out at a level for canaries that do not act on each other, at least 0."""
    return _root(lambda mu: level - independent_p_value(right, guesses, canaries, mu))


def independent_p_value(right: int, guesses: int, canaries: int, mu: float) -> float:
    """Return the largest probability of so many right guesses or more, if each canary by itself is mu-Gaussian private.

    Guesses are best about the draws furthest from the middle of N(0, 1) and N(mu, 1); see the head of this file. Given
    the distance t of the first draw that is not guessed, they are right independently with the probability
    Phi(mu/2 - t) / (Phi(mu/2 - t) + Phi(-mu/2 - t)).
    """
    if guesses == canaries:
        return float(scipy.stats.binom.sf(right - 1, guesses, ndtr(mu / 2)))
    # the probability of draws further away than t
    beyond = scipy.stats.beta.ppf(NODES, guesses + 1, canaries - guesses)
    near, far = np.zeros_like(beyond), np.full_like(beyond, mu / 2 + 40)
    for _ in range(60):  # bisection for t
        t = (near + far) / 2
        is_nearer = ndtr(mu / 2 - t) + ndtr(-mu / 2 - t) > beyond
        near, far = np.where(is_nearer, t, near), np.where(is_nearer, far, t)
    share = expit(log_ndtr(mu / 2 - near) - log_ndtr(-mu / 2 - near))
    return float(WEIGHTS @ scipy.stats.binom.sf(right - 1, guesses, share))


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    """Return the least epsilon at which a Gaussian mechanism with parameter mu is (epsilon, delta)-private, by `_root`.

    Balle & Wang, "Improving the Gaussian Mechanism for Differential Privacy" (ICML 2018), theorem 8.
    """
    if mu <= 0:
        return 0.0

    def surplus(epsilon: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)) - delta)

    return _root(surplus)


def _root(surplus: Callable[[float], float]) -> float:
    """Return where a falling function reaches 0, rounded down by `CLOSE`; 0 if it never exceeds 0, at most 1024."""
    if surplus(0.0) <= 0:
        return 0.0
    high = 1.0
    while surplus(high) > 0 and high < 1e3:
        high *= 2
    if surplus(high) > 0:
        return high
    return float(max(0.0, scipy.optimize.brentq(surplus, 0.0, high, xtol=CLOSE) - CLOSE))
