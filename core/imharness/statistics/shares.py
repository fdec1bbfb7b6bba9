"""Intervals of means of numbers that have few values, such as the right and wrong answers of two models on one image.

Where most units have the same value, as where one model loses few of many images, the sample says little about the
spread of its own mean, and t intervals end too near. The score interval takes the spread that the mean would have if
an end of the interval were the truth. For two answers to one question it is the interval of Tango ("Equivalence test
and confidence interval for the difference in proportions for the paired-sample design", Statistics in Medicine 1998)
and, for a ratio, that of Nam and Blackwelder (Statistics in Medicine 2002); here for a mean of any known values.
"""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics.clusters import FEWEST
from imharness.statistics.differences import MOST, POWER

Floats = npt.NDArray[np.float64]
_NEAR = 1e-12
"""The tolerance of the searches for an end and for a multiplier, as a share of the range that is searched."""


def score_interval(numbers: Floats, values: Floats, alpha: float) -> tuple[float, float]:
    """Return the score interval of a mean.

    `numbers`: one for each independent unit ``(k,)``, each one of `values`, which are all numbers that a unit can have
    ``(v,)``. `alpha`: the two-sided level; the mean lies as many standard errors from the ends as a normal one does.
    """
    support, counts = _counted(numbers, values)
    quantile = -scipy.special.ndtri(alpha / 2)
    mean = float(np.clip(support @ counts / counts.sum(), support[0], support[-1]))  # rounding may lead outside

    def excess(end: float) -> float:
        """Return how much farther from `end` the mean is than allowed, times the root of the number of units."""
        off = support - end
        spread = float(np.sqrt(likely(counts, off) @ off**2))
        return float(abs(mean - end) * np.sqrt(counts.sum()) - quantile * spread)

    def end_towards(extreme: float) -> float:
        if extreme == mean:
            return extreme
        return float(scipy.optimize.brentq(excess, mean + (extreme - mean) * _NEAR, extreme, xtol=_NEAR))

    return end_towards(float(support[0])), end_towards(float(support[-1]))


def score_needed(numbers: Floats, values: Floats, alpha: float) -> int | None:
    """Return with how many units the score interval shows on which side of 0 a mean is, in four of five studies.

    The number follows from normal distributions: one with the spread of the numbers, and one with the spread that they
    would have if their mean were 0. Arguments as in `score_interval`. None for a mean of 0 and above `MOST` units.
    """
    support, counts = _counted(numbers, values)
    size, spread = abs(float(numbers.mean())), float(numbers.std())
    around = float(np.sqrt(likely(counts, support) @ support**2))
    far = -scipy.special.ndtri(alpha / 2) * around + scipy.special.ndtri(POWER) * spread

    def enough(n: int) -> bool:
        return bool(size * np.sqrt(n) >= far)

    if not enough(MOST):
        return None
    return FEWEST + bisect.bisect_left(range(FEWEST, MOST), True, key=enough)


def _counted(numbers: Floats, values: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return the distinct values in ascending order, and how many numbers are nearest to each."""
    support = np.unique(values)
    return support, np.bincount(np.abs(numbers[:, None] - support).argmin(axis=1), minlength=len(support))


def likely(counts: npt.NDArray[np.int64], off: Floats) -> Floats:
    """Return the shares of values ``(v,)`` under which these counts are most likely, of all shares with a given mean.

    Args:
        counts: how often each value was seen ``(v,)``.
        off: each value minus the given mean ``(v,)``, ascending; neither all above 0 nor all below. So the mean of
            `off` is 0 under the shares.

    The shares are counts / (total + m off). The Lagrange multiplier m is the one with which the mean of `off` is 0
    (Owen, "Empirical likelihood ratio confidence intervals for a single functional", Biometrika 1988).
    """
    if off[0] >= 0 or off[-1] <= 0:  # the given mean is the smallest or the largest value, which then has the share 1
        return np.asarray((off == 0) / (off == 0).sum())
    total, seen = int(counts.sum()), counts > 0
    low, high = -total / off[-1], -total / off[0]  # with multipliers between them, no share is negative
    pairs = [(float(count * value), float(value)) for count, value in zip(counts[seen], off[seen], strict=True)]

    def mean(multiplier: float) -> float:
        """Return the mean of `off`; with so few values, a loop is faster than arrays."""
        return sum(weighted / (total + multiplier * value) for weighted, value in pairs)

    step = _NEAR * (high - low)
    lowest, highest = low + step, high - step
    if mean(lowest) > 0 > mean(highest):
        multiplier = scipy.optimize.brentq(mean, lowest, highest, xtol=step)
        return np.asarray(counts / (total + multiplier * off))
    # No root, as the largest or the smallest value was never seen. The multiplier is then an end of the range, and the
    # share of that value is what the others leave.
    unseen, multiplier = (-1, low) if mean(lowest) <= 0 else (0, high)
    shares = np.where(seen, counts / np.where(seen, total + multiplier * off, 1.0), 0.0)
    shares[unseen] = 0.0
    shares[unseen] = 1 - shares.sum()
    return np.asarray(shares)
