"""Epsilon of training with clipped gradients and Gaussian noise: Renyi divergences, added up over its steps.

Mironov, Talwar & Zhang, "Renyi Differential Privacy of the Sampled Gaussian Mechanism" (2019): each row is in a batch
with probability q, and the noise is sigma times the clipping norm. Then the Renyi divergence of one training step is
that of the mixture (1 - q) N(0, sigma^2) + q N(1, sigma^2) from N(0, sigma^2); it is integrated numerically here. The
conversion of divergences into epsilon is proposition 12 of Canonne, Kamath & Steinke, "The Discrete Gaussian for
Differential Privacy" (NeurIPS 2020).
"""

import numpy as np
import scipy

ORDERS = 1 + np.geomspace(1e-4, 1e3, 200)
"""The orders of the divergence. Each order gives a true bound of epsilon, and the smallest bound is taken."""
REACH, FURTHEST = 40.0, 400.0
"""In standard deviations of the noise: how far the integral extends beyond the modes of both distributions, and how far
apart these modes may be. A larger order would move them further apart, so it is left out."""


def epsilon_of(noise: float, rate: float, steps: int, delta: float) -> float:
    """Return epsilon at delta after a number of training steps.

    Args:
        noise: standard deviation of the noise, divided by the clipping norm.
        rate: probability that a row is in a batch, in (0, 1].
    """
    orders, spent = _spent(noise, rate, steps)
    return _epsilon(orders, spent, delta)


def epsilon_after_choosing(noise: float, rate: float, steps: int, delta: float, trials: float) -> float:
    """Return epsilon at delta where a model is trained several times, and the best model by the same rows is published.

    The number of trainings is drawn from a geometric distribution, and each has settings that are drawn anew: Papernot
    & Steinke, "Hyperparameter Tuning with Renyi Differential Privacy" (ICLR 2022), theorem 2 with eta = 1. With a fixed
    number of trainings, epsilon is as large as if all models were published: `epsilon_of` for the steps of all.

    Args:
        noise, rate, steps: of the setting with the least privacy; see `epsilon_of`.
        trials: the mean number of trainings, at least 1.
    """
    orders, spent = _spent(noise, rate, steps)
    choice = 2 * ((1 - 1 / orders) * spent + np.log(trials) / orders).min()
    return _epsilon(orders, spent + choice + np.log(trials) / (orders - 1), delta)


def _spent(noise: float, rate: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return orders and the divergences of all steps together."""
    orders = ORDERS[(FURTHEST * noise >= ORDERS) | (ORDERS < 2)]
    return orders, steps * np.array([divergence(noise, rate, order) for order in orders])


def _epsilon(orders: np.ndarray, spent: np.ndarray, delta: float) -> float:
    """Return the smallest epsilon at delta that follows from divergences `spent` of the given orders."""
    epsilons = spent + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return max(0.0, float(epsilons.min()))


def divergence(noise: float, rate: float, order: float) -> float:
    """Return the Renyi divergence of one step; the order is above 1."""
    if rate == 1:
        return order / (2 * noise**2)
    step = min(0.1, noise / 2)  # the integrand is analytic where the imaginary part is below pi times the noise
    z = np.arange(-REACH, order / noise + REACH, step)
    ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + z / noise - 1 / (2 * noise**2))
    exponents = order * ratio - z**2 / 2
    return float(scipy.special.logsumexp(exponents) + np.log(step / np.sqrt(2 * np.pi))) / (order - 1)
