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
"""Ends and multipliers are found up to this share of the range that they are looked for in."""


def score_interval(numbers: Floats, values: Floats, alpha: float) -> tuple[float, float]:
    """Return the score interval of a mean.

    `numbers`: one for each independent unit ``(k,)``, each one of `values`, which are all numbers that a unit can have
    ``(v,)``. `alpha`: the two-sided level; the mean lies as many standard errors from the ends as a normal one does.
    """
    reached = -scipy.special.ndtri(alpha / 2)
    support = np.unique(values)
    counts = np.bincount(np.abs(numbers[:, None] - support).argmin(axis=1), minlength=len(support))
    mean = float(support @ counts / counts.sum())

    def beyond(end: float) -> float:
        off = support - end
        spread = float(np.sqrt(likely(counts, off) @ off**2))
        return float(abs(mean - end) * np.sqrt(counts.sum()) - reached * spread)

    def found(end: float) -> float:
        near, width = mean + (end - mean) * _NEAR, abs(end - mean)
        return end if width == 0 else float(scipy.optimize.brentq(beyond, near, end, xtol=_NEAR))

    return found(float(support[0])), found(float(support[-1]))


def score_needed(numbers: Floats, values: Floats, alpha: float) -> int | None:
    """Return how many units' score interval shows on which side of 0 a mean is, in four of five studies.

    By the normal distribution, with the spread that the numbers have and the one that they would have around 0.
    Arguments as in `score_interval`; `alpha`: the two-sided level. None for a mean of 0 and above `MOST` units.
    """
    support = np.unique(values)
    counts = np.bincount(np.abs(numbers[:, None] - support).argmin(axis=1), minlength=len(support))
    size, spread = abs(float(numbers.mean())), float(numbers.std())
    around = float(np.sqrt(likely(counts, support) @ support**2))
    far = -scipy.special.ndtri(alpha / 2) * around + scipy.special.ndtri(POWER) * spread

    def enough(n: int) -> bool:
        return bool(size * np.sqrt(n) >= far)

    if not enough(MOST):
        return None
    return FEWEST + bisect.bisect_left(range(FEWEST, MOST), True, key=enough)


def likely(counts: npt.NDArray[np.int64], off: Floats) -> Floats:
    """Return the likeliest shares of values with these counts ``(v,)``, if the mean of `off` ``(v,)`` is 0.

    The largest is above 0 and the smallest below, or one of them is 0 and has everything.
    """
    if off[0] >= 0 or off[-1] <= 0:
        return np.asarray((off == 0) / (off == 0).sum())
    total, seen = int(counts.sum()), counts > 0
    low, high = -total / off[-1], -total / off[0]
    pairs = [(float(count * value), float(value)) for count, value in zip(counts[seen], off[seen], strict=True)]

    def left(multiplier: float) -> float:  # of so few values, a loop is faster than arrays
        return sum(weighted / (total + multiplier * value) for weighted, value in pairs)

    step = _NEAR * (high - low)
    ends = low + step, high - step
    if left(ends[0]) <= 0 or left(ends[1]) >= 0:
        index, multiplier = (-1, low) if left(ends[0]) <= 0 else (0, high)
        shares = np.where(seen, counts / np.where(seen, total + multiplier * off, 1.0), 0.0)
        shares[index] = 0.0
        shares[index] = 1 - shares.sum()
        return np.asarray(shares)
    multiplier = scipy.optimize.brentq(left, *ends, xtol=step)
    return np.asarray(counts / (total + multiplier * off))
