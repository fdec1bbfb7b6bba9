"""Lower bounds of epsilon from one run, on mechanisms whose epsilon is known."""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom, norm

import imharness as ih
from imharness_membership.one_run import (
    epsilon_bound,
    epsilon_of_gaussian,
    gaussian_bound,
    independent_bound,
    independent_p_value,
    one_run_bounds,
    p_value,
)

RUNS, CANARIES, DELTA = 200, 1000, 1e-5
MOST_FALSE = int(binom.ppf(0.999, RUNS, 0.05))
"""A bound with 95% confidence is too large in more than so many of the runs with a probability below 0.001.

One that is too large in 15 % of runs, three times as many, exceeds it with a power of 0.95.
"""


def bounds(
    coins: np.ndarray, scores: np.ndarray, delta: float = DELTA, guesses: int | None = None
) -> tuple[float, float, float]:
    """Return bounds for any algorithm, for Gaussian ones, and for Gaussian ones with independent canaries."""
    result = one_run_bounds(scores, coins, delta, 0.95, guesses)
    return result.any_algorithm.epsilon, result.gaussian.epsilon, result.independent.epsilon


@cache
def many(mechanism: str, strength: float, *, delta: float = DELTA, guesses: int | None = None) -> np.ndarray:
    """Return the `bounds` of `RUNS` runs of a mechanism, ``(runs, 3)``."""
    rng, results = np.random.default_rng(7), []
    for _ in range(RUNS):
        coins = rng.random(CANARIES) < 0.5
        if mechanism == "gaussian":  # one counter for each canary, with noise of standard deviation 1
            scores = strength * coins + rng.normal(size=CANARIES)
        elif mechanism == "clipped":  # Gaussian of epsilon 1 with its log-likelihood ratios clipped at `strength`
            scores = rng.choice([-0.5, 0.5], CANARIES) * mu_of(1.0) + rng.normal(size=CANARIES)
            draws = rng.random(CANARIES) < expit(np.clip(mu_of(1.0) * scores, -strength, strength))
            coins = draws
        elif mechanism == "all or none":  # in three runs of ten a share `strength` of all canaries is right
            draws = rng.random(CANARIES) < (strength if rng.random() < 0.3 else 0.5)
            scores = np.where(draws, coins, ~coins).astype(float)
        else:  # randomised response; strength is its epsilon
            draws = rng.random(CANARIES) < 1 / (1 + np.exp(-strength))
            scores = np.where(draws, coins, ~coins).astype(float)
        results.append(bounds(coins, scores, delta, guesses))
    return np.array(results)


@cache
def mu_of(epsilon: float) -> float:
    """Return the mean shift of a Gaussian mechanism of this epsilon at `DELTA`, in standard deviations."""
    return float(brentq(lambda mu: epsilon_of_gaussian(mu, DELTA) - epsilon, 0.01, 4))


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("guesses", [None, CANARIES // 8])
def test_bounds_hold_for_the_gaussian_mechanism(epsilon: float, guesses: int | None) -> None:
    epsilons = many("gaussian", mu_of(epsilon), guesses=guesses)
    assert ((epsilons > epsilon).sum(axis=0) <= MOST_FALSE).all()


@pytest.mark.parametrize("epsilon", [3.0, 4.0, 8.0])
def test_the_gaussian_bound_is_half_of_the_truth_where_the_number_of_guesses_is_chosen_beforehand(
    epsilon: float,
) -> None:
    """The audit guesses an eighth of the canaries. The general bound is less: it holds for noise of any shape."""
    general, gaussian, _ = np.median(many("gaussian", mu_of(epsilon), guesses=CANARIES // 8), axis=0)
    assert gaussian >= epsilon / 2
    assert 0.25 * epsilon < general < gaussian


def test_the_choice_of_the_number_of_guesses_costs_a_twentieth() -> None:
    for epsilon in (3.0, 4.0, 8.0):
        chosen, paid = (np.median(many("gaussian", mu_of(epsilon), guesses=g)[:, 1]) for g in (CANARIES // 8, None))
        assert paid >= 0.95 * chosen


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_independent_canaries_show_half_of_the_truth_or_more_and_nearly_what_any_test_can(epsilon: float) -> None:
    """With 1,000 draws, a test tells mu from a smaller value in half of the runs if it is 2 z / sqrt(1,000) less."""
    mu = mu_of(epsilon)
    epsilon_found = np.median(many("gaussian", mu)[:, 2])
    best = epsilon_of_gaussian(mu - 2 * norm.ppf(0.95) / np.sqrt(CANARIES), DELTA)
    assert 0.48 * epsilon < epsilon_found < best + 0.02
    assert epsilon_found > 0.83 * best


def test_no_test_shows_half_of_an_epsilon_of_a_half() -> None:
    best = epsilon_of_gaussian(mu_of(0.5) - 2 * norm.ppf(0.95) / np.sqrt(CANARIES), DELTA)
    assert best < 0.25
    assert np.median(many("gaussian", mu_of(0.5))[:, 2]) <= best + 0.02


@pytest.mark.parametrize(("mu", "guesses"), [(0.27, 100), (1.0, 60), (1.7, 200)])
def test_the_p_value_of_independent_canaries_is_the_share_of_the_best_guesses_simulated(
    mu: float, guesses: int
) -> None:
    rng = np.random.default_rng(5)
    signs = rng.choice([-1, 1], (20_000, 200))
    draws = signs * mu / 2 + rng.normal(size=signs.shape)
    chosen = np.argsort(-np.abs(draws), axis=1)[:, :guesses]
    agreed = np.take_along_axis(draws * signs > 0, chosen, axis=1).sum(axis=1)
    right = int(np.quantile(agreed, 0.9))
    assert independent_p_value(right, guesses, 200, mu) == pytest.approx((agreed >= right).mean(), abs=0.01)
    assert independent_bound(right, guesses, 200, 0.05) < mu < independent_bound(right, guesses, 200, 0.2)


def test_a_clipped_mechanism_has_the_smaller_epsilon_that_the_bound_for_any_algorithm_may_not_pass() -> None:
    """1,000 canaries hardly tell it from the Gaussian mechanism, so that no bound for any algorithm shows much more."""
    epsilons = many("clipped", 0.27)[:, 0]
    assert (epsilons > 0.27).sum() <= MOST_FALSE
    assert np.median(many("gaussian", mu_of(1.0))[:, 0]) < 0.27


def test_the_bound_of_independent_canaries_is_no_bound_where_canaries_show_together() -> None:
    """In three runs of ten 80% of all canaries are right: the best tradeoff of errors is that of this mu."""
    truth = epsilon_of_gaussian(norm.ppf(0.3 * 0.8) - norm.ppf(0.3 * 0.2), DELTA)
    epsilons = many("all or none", 0.8)
    assert (epsilons[:, 1] > truth).sum() <= MOST_FALSE
    assert (epsilons[:, 2] > truth).mean() > 0.15


@pytest.mark.parametrize("right", [0.8, 0.95])
def test_the_headline_holds_where_canaries_show_together(right: float) -> None:
    """Where canaries answer, they are right with odds of e to the epsilon, and nothing else is revealed."""
    truth = np.log(right / (1 - right))
    epsilons = many("all or none", right)
    assert (epsilons[:, 0] > truth).sum() <= MOST_FALSE
    assert (epsilons[:, 2] > truth).mean() > 0.25
    coins, rng = np.random.default_rng(0).random(CANARIES) < 0.5, np.random.default_rng(1)
    scores = np.where(rng.random(CANARIES) < right, coins, ~coins).astype(float)
    audit = ih.audit_one_run(scores, coins)
    assert audit.epsilon == audit.bounds.any_algorithm.epsilon < audit.bounds.independent.epsilon
    assert "The headline, `epsilon`, is the row any algorithm" in str(audit)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomised_response_is_bounded_closely_by_the_bound_for_any_algorithm(epsilon: float) -> None:
    epsilons = many("response", epsilon, delta=0.0, guesses=CANARIES // 2)[:, 0]
    assert (epsilons > epsilon).sum() <= MOST_FALSE
    assert np.median(epsilons) > 0.6 * epsilon


def test_scores_that_say_nothing_have_no_epsilon() -> None:
    epsilons = many("gaussian", 0.0)
    assert ((epsilons > 0).sum(axis=0) <= MOST_FALSE).all()


def test_no_privacy_is_seen() -> None:
    """All coins are revealed: 1,000 right guesses rule out every epsilon at which so many are improbable."""
    coins = np.random.default_rng(0).random(CANARIES) < 0.5
    result = one_run_bounds(coins.astype(float), coins, 0.0, 0.95, CANARIES)
    share = 0.05 ** (1 / result.any_algorithm.guesses)
    agreed = result.any_algorithm.right / result.any_algorithm.guesses
    if agreed == 1:  # as many coins fell on one side as on the other
        assert result.any_algorithm.epsilon == pytest.approx(np.log(share / (1 - share)), abs=1e-3)
    few = one_run_bounds(coins.astype(float), coins, 0.0, 0.95, 200).any_algorithm
    assert (few.right, few.guesses) == (200, 200)
    assert few.epsilon == pytest.approx(np.log(0.05 ** (1 / 200) / (1 - 0.05 ** (1 / 200))), abs=1e-3)


def test_without_delta_the_p_value_is_the_binomial_tail_and_with_delta_that_of_the_theorem() -> None:
    assert p_value(70, 100, 1000, 0.5, 0.0) == pytest.approx(binom.sf(69, 100, 1 / (1 + np.exp(-0.5))))
    share = 1 / (1 + np.exp(-0.5))
    slow = max(sum(binom.pmf(70 - k, 100, share) for k in range(1, i + 1)) / i for i in range(1, 71))
    assert p_value(70, 100, 1000, 0.5, 1e-4) == pytest.approx(binom.sf(69, 100, share) + 2 * 1000 * 1e-4 * slow)
    assert epsilon_bound(50, 100, 1000, 1e-5, 0.05) == 0
    assert epsilon_bound(90, 100, 1000, 1e-5, 0.05) > epsilon_bound(90, 100, 1000, 1e-3, 0.05)


def test_the_gaussian_bound_grows_with_right_guesses_and_its_epsilon_solves_the_equation_of_balle_and_wang() -> None:
    epsilons = [gaussian_bound(right, 100, 1000, 0.05) for right in range(50, 101, 5)]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] == 0
    for mu in (0.3, 1.0, 3.0):
        epsilon = epsilon_of_gaussian(mu, DELTA)
        delta = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert delta == pytest.approx(DELTA, rel=1e-2)


def test_the_order_of_canaries_with_equal_scores_says_nothing() -> None:
    """All included canaries come first, and all scores are equal."""
    coins = np.arange(CANARIES) < CANARIES // 2
    assert bounds(coins, np.zeros(CANARIES)) == (0.0, 0.0, 0.0)
