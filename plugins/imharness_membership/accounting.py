"""Epsilon of training with clipped gradients and Gaussian noise: Renyi divergences, added up over its steps.

Mironov, Talwar & Zhang, "Renyi Differential Privacy of the Sampled Gaussian Mechanism" (2019): where each row is in a
batch with probability q, and the noise is sigma times the clipping norm, a step's divergence of order a is that of the
mixture (1 - q) N(0, sigma^2) + q N(1, sigma^2) from N(0, sigma^2), which is integrated numerically here. The step from
divergences to epsilon is proposition 12 of Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy"
(NeurIPS 2020).
"""

import numpy as np
import scipy

ORDERS = 1 + np.geomspace(1e-4, 1e3, 200)
"""The orders of which the best is taken; every single one gives a true bound."""
REACH, FURTHEST = 40.0, 400.0
"""How far the integral goes beyond both modes, and how far the modes may be apart, in standard deviations."""


def epsilon_of(noise: float, rate: float, steps: int, delta: float) -> float:
    """Return epsilon at delta after so many steps.

    Args:
        noise: standard deviation of the noise, divided by the clipping norm.
        rate: probability that a row is in a batch, in (0, 1].
    """
    orders, spent = _spent(noise, rate, steps)
    return _epsilon(orders, spent, delta)


def epsilon_after_choosing(noise: float, rate: float, steps: int, delta: float, trials: float) -> float:
    """Return epsilon at delta of the best of several trainings, which is chosen by what the same rows say.

    The number of trainings is drawn from a geometric distribution, each has settings that are drawn anew, and only the
    best one is published: Papernot & Steinke, "Hyperparameter Tuning with Renyi Differential Privacy" (ICLR 2022),
    theorem 2 with eta = 1. A fixed number of trainings costs as much as publishing all: `epsilon_of` for all steps.

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
