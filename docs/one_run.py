"""Prints the table of docs/howto/strong-audit.md: what one run can show of the epsilon of a Gaussian mechanism.

python docs/one_run.py

Limits are medians that no audit of 1,000 canaries exceeds if it is wrong in at most 5% of the runs. An audit that
claims more than a smaller epsilon in half of the runs tells the mechanism from one that has it, and no test tells two
mechanisms better than their likelihood ratio (Neyman and Pearson).
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_expit, ndtri

from imharness.cli import console
from imharness_membership.one_run import epsilon_of_gaussian, one_run_bounds

RUNS, CANARIES, DELTA, LEVEL = 500, 1000, 1e-5, 0.05
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


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
        bounds = np.array([_bounds(*trial) for trial in zip(scores, coins, strict=True)])
        general, gaussian, alone = np.median(bounds, axis=0)
        wrong = (bounds > epsilon).mean(axis=0).max()
        most, best = _limit(mu, epsilon, scores, coins), _limit_alone(mu)
        console.say(
            f"| {epsilon:g} | {general:.2f} | {most:.2f} | {gaussian:.2f} | {alone:.2f} | {best:.2f} | {wrong:.1%} |"
        )


def _bounds(scores: np.ndarray, coins: np.ndarray) -> list[float]:
    bounds = one_run_bounds(scores, coins, DELTA, 1 - LEVEL)
    return [bounds.any_algorithm.epsilon, bounds.gaussian.epsilon, bounds.independent.epsilon]


def _limit(mu: float, epsilon: float, scores: np.ndarray, coins: np.ndarray) -> float:
    """Return the limit for bounds that hold for any algorithm.

    The other mechanism gives the same scores, but no score tells more than its epsilon: log odds of coins are clipped.
    Expectations under it are taken over runs of the true one, with weights.
    """
    signs, odds = np.where(coins, 1, -1), mu * (scores - mu / 2)

    def is_told(clipped: float) -> bool:
        ratio = (log_expit(signs * odds) - log_expit(signs * np.clip(odds, -clipped, clipped))).sum(axis=1)
        return float(np.mean(np.exp(-ratio) * (ratio >= np.median(ratio)))) < LEVEL

    low, high = 0.0, epsilon
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if is_told(middle) else (low, middle)
    return high


def _limit_alone(mu: float) -> float:
    """Return the limit where canaries are independent: the other mechanism shifts them less, around the same middle."""
    return epsilon_of_gaussian(max(0.0, mu + 2 * float(ndtri(LEVEL)) / np.sqrt(CANARIES)), DELTA)


if __name__ == "__main__":
    main()
