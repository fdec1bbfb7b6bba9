"""Prints the table of docs/howto/strong-audit.md: what one run can show of the epsilon of a Gaussian mechanism.

    python docs/one_run.py

Each lower bound is a median over runs. Beside it stands its limit: the largest median of any audit of 1,000 canaries
that is wrong in at most 5% of the runs. An audit that claims more than a smaller epsilon in half of the runs tells the
mechanism from a rival that has that epsilon, and no test tells two mechanisms better than their likelihood ratio
(Neyman and Pearson).
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_expit, ndtri

from imharness.cli import console
from imharness_membership.one_run import epsilon_of_gaussian, one_run_bounds

RUNS, CANARIES, DELTA, LEVEL = 500, 1000, 1e-5, 0.05
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
HALVINGS = 16
"""How often the interval from 0 to epsilon that holds a limit is halved."""


def main() -> None:
    """Print one line for each epsilon."""
    console.say(
        "| true epsilon | any algorithm | of at most | Gaussian | independent canaries | of at most | too large |"
    )
    console.say("|---|---|---|---|---|---|---|")
    for epsilon in EPSILONS:
        mu = float(brentq(lambda value, wanted=epsilon: epsilon_of_gaussian(value, DELTA) - wanted, 0.01, 8))
        rng = np.random.default_rng(11)
        coins = rng.random((RUNS, CANARIES)) < 0.5
        scores = mu * coins + rng.normal(size=coins.shape)
        bounds = np.array([_bounds(*run) for run in zip(scores, coins, strict=True)])  # (RUNS, 3)
        any_algorithm, gaussian, independent = np.median(bounds, axis=0)
        limit, limit_independent = _limit(mu, epsilon, scores, coins), _limit_independent(mu)
        too_large = (bounds > epsilon).mean(axis=0).max()
        console.say(
            f"| {epsilon:g} | {any_algorithm:.2f} | {limit:.2f} | {gaussian:.2f} | {independent:.2f} "
            f"| {limit_independent:.2f} | {too_large:.1%} |"
        )


def _bounds(scores: np.ndarray, coins: np.ndarray) -> list[float]:
    bounds = one_run_bounds(scores, coins, DELTA, 1 - LEVEL)
    return [bounds.any_algorithm.epsilon, bounds.gaussian.epsilon, bounds.independent.epsilon]


def _limit(mu: float, epsilon: float, scores: np.ndarray, coins: np.ndarray) -> float:
    """Return the limit of bounds that hold for any algorithm. `scores`, `coins`: ``(RUNS, CANARIES)``.

    The rival gives the same scores, but its log odds of a coin, given the score, are clipped to its epsilon. The test
    accepts the half of the true mechanism's runs with the largest likelihood ratios. It is wrong where the rival gives
    such a run: a mean over runs of the true mechanism, each with the weight 1 / ratio.
    """
    signs, log_odds = np.where(coins, 1, -1), mu * (scores - mu / 2)

    def errors_against(rival_epsilon: float) -> float:
        rival_log_odds = np.clip(log_odds, -rival_epsilon, rival_epsilon)
        log_ratio = (log_expit(signs * log_odds) - log_expit(signs * rival_log_odds)).sum(axis=1)  # (RUNS,)
        return float(np.mean(np.exp(-log_ratio) * (log_ratio >= np.median(log_ratio))))

    low, high = 0.0, epsilon
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if errors_against(middle) < LEVEL else (low, middle)
    return high


def _limit_independent(mu: float) -> float:
    """Return the limit of bounds for independent canaries: the rival shifts them less, also around mu / 2."""
    return epsilon_of_gaussian(max(0.0, mu + 2 * float(ndtri(LEVEL)) / np.sqrt(CANARIES)), DELTA)


if __name__ == "__main__":
    main()
