"""Prints the table of docs/howto/strong-audit.md: what one run can show of the epsilon of a Gaussian mechanism.

    python docs/one_run.py

The mechanism adds normal noise to a score for each of 1,000 canaries; a fair coin decides whether a canary is in the
training set. An audit sees scores and coins of one run, and states a lower bound of epsilon that is too large in at
most 5% of all runs. The table has the median of such bounds over simulated runs.

Beside a median stands its limit, which no audit of as many canaries can exceed. Suppose that an audit states more than
some epsilon' in half of the runs. Then "the bound is above epsilon'" is a test that separates the mechanism, in half of
its runs, from every *rival* mechanism with epsilon'; it is wrong in at most 5% of the rival's runs. By the lemma of
Neyman and Pearson no test is wrong less often than that of the likelihood ratio. The limit is therefore the least
epsilon' of a rival for which the likelihood ratio is wrong in more than 5% of the runs.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_expit, ndtri

from imharness.cli import console
from imharness_membership.one_run import epsilon_of_gaussian, one_run_bounds

RUNS, CANARIES, DELTA, LEVEL = 500, 1000, 1e-5, 0.05
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
HALVINGS = 16
"""The number of bisections that find a limit between 0 and epsilon."""


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
    """Return the lower bounds of epsilon by three audits of one run; `scores` and `coins` are ``(CANARIES,)``."""
    bounds = one_run_bounds(scores, coins, DELTA, 1 - LEVEL)
    return [bounds.any_algorithm.epsilon, bounds.gaussian.epsilon, bounds.independent.epsilon]


def _limit(mu: float, epsilon: float, scores: np.ndarray, coins: np.ndarray) -> float:
    """Return the limit of bounds that hold for any algorithm.

    The rival has the same scores, but the log odds of a coin, given its score, are clipped to the rival's epsilon. The
    test accepts the half of the true mechanism's runs with the largest likelihood ratios. Its error is the chance that
    the rival gives such a run: the mean over runs of the true mechanism, each weighted with 1 / ratio.

    Args:
        mu: the distance of the two means of scores, in standard deviations of the noise.
        epsilon: the epsilon of the true mechanism.
        scores: ``(RUNS, CANARIES)``, of the true mechanism.
        coins: bool ``(RUNS, CANARIES)``, whether a canary is in the training set.
    """
    signs, log_odds = np.where(coins, 1, -1), mu * (scores - mu / 2)

    def error_against(rival_epsilon: float) -> float:
        rival_log_odds = np.clip(log_odds, -rival_epsilon, rival_epsilon)
        log_ratio = (log_expit(signs * log_odds) - log_expit(signs * rival_log_odds)).sum(axis=1)  # (RUNS,)
        return float(np.mean(np.exp(-log_ratio) * (log_ratio >= np.median(log_ratio))))

    low, high = 0.0, epsilon
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if error_against(middle) < LEVEL else (low, middle)
    return high


def _limit_independent(mu: float) -> float:
    """Return the limit of bounds for independent canaries.

    The rival is a Gaussian mechanism, too, whose means are nearer to each other, around the same middle mu / 2. Then
    the test is on a sum of normal numbers, and its error has a closed form.
    """
    return epsilon_of_gaussian(max(0.0, mu + 2 * float(ndtri(LEVEL)) / np.sqrt(CANARIES)), DELTA)


if __name__ == "__main__":
    main()
