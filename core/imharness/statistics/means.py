"""Means against zero, several of them at once, such as the accuracy that a defense keeps and the one it loses.

Each mean is over independent units; the intervals of `count` of them hold at once with 95 %, by Bonferroni: that needs
no assumption on how they depend on each other, and any reader can repeat it. Each end is the farther one of two: that
of Student's t, and that of the t corrected for skewness (Hall, "On the removal of skewness by transformation", JRSS B
1992, equation 2.4). The second alone would be too near with few units, which say little about skewness. Where a unit
can have few values, such as an image that is classified right or wrong, see `imharness.statistics.shares`. How well
all these cover is simulated in docs/concepts/statistics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from imharness.statistics.bootstrap import LEVEL
from imharness.statistics.clusters import FEWEST, coded
from imharness.statistics.differences import BATCHES, Floats, Intervals, moments, quantile, units_needed
from imharness.statistics.shares import score_interval, score_needed

JACKKNIFED = 14
"""With fewer clusters, intervals by the `jackknife` of correlations of 0.9 hold in fewer than 95 % of studies."""
_STRAIGHT = 1e-9
"""Less skewness than this is none: the correction divides by it."""


@dataclass(frozen=True)
class Means(Intervals):
    """Means with intervals whose ends ``(means,)`` are not equally far from them; NaN where there is none.

    `needs`: index of a mean -> a function that returns how many units separate it from 0. It takes the place of the
    rule of `Intervals` for means of units that have few values, and for skewed ones.
    """

    ends: tuple[Floats, Floats]
    needs: Mapping[int, Callable[[], int | None]]

    @property
    def low(self) -> Floats:
        """Lower ends."""
        return self.ends[0]

    @property
    def high(self) -> Floats:
        """Upper ends."""
        return self.ends[1]

    def needed_for(self, *index: int) -> int | None:
        """Return how many units show on which side of zero a mean is, in four of five studies; see `Intervals`."""
        return self.needs[index[0]]() if index[0] in self.needs else super().needed_for(*index)


def alpha_for(count: int) -> float:
    """Return the two-sided level of one interval at which `count` of them hold at once with 95 %."""
    return (1 - LEVEL) / max(count, 1)


def means(
    samples: Sequence[npt.ArrayLike], count: int, values: Sequence[npt.ArrayLike] = (), fewest: int = FEWEST
) -> Means:
    """Return the mean of each sample with its interval.

    Args:
        samples: each ``(k,)``, one number for each independent unit, NaN where a unit has none; k may differ. A sample
            without numbers has the mean NaN.
        count: how many intervals hold at once with 95 %.
        values: for each sample all numbers that a unit can have, if these are few and known, else nothing.
        fewest: with fewer units there is no interval.
    """
    rows = [np.asarray(array, dtype=np.float64) for array in samples]
    finite_rows = [row[~np.isnan(row)] for row in rows]
    value, error = np.full((2, len(rows)), np.nan)
    for i, sample in enumerate(finite_rows):
        if len(sample):
            (value[i],), (error[i],), _ = moments(sample[None])
    units = np.array([len(row) for row in finite_rows], dtype=np.int64)
    value_range = max((float(np.abs(row).max()) for row in finite_rows if len(row)), default=0.0)
    intervals = Intervals(value, error, units, alpha_for(count), value_range)
    low, high, needs = intervals.low, intervals.high, dict[int, Callable[[], int | None]]()
    low[units < fewest] = high[units < fewest] = np.nan
    for i, sample in enumerate(finite_rows):
        if len(sample) < fewest:
            continue
        support = np.asarray(values[i] if values else (), dtype=np.float64)
        if len(support):
            low[i], high[i] = score_interval(sample, support, intervals.alpha)
            needs[i] = partial(score_needed, sample, support, intervals.alpha)
        elif error[i] > 0:
            ends = skewed_ends(sample, quantile(intervals.alpha, len(sample)))
            low[i], high[i] = min(low[i], ends[0]), max(high[i], ends[1])
            needs[i] = partial(_skewed_needed, sample, intervals.alpha)
    return Means(value, error, units, intervals.alpha, value_range, (low, high), needs)


def skewed_ends(sample: Floats, bound: float, *, sure: bool = False) -> tuple[float, float]:
    """Return the ends of Hall's interval of the mean of ``(k,)``, where his transformed t is `bound` and minus `bound`.

    `sure`: bring the skewness nearer to 0, by at most the standard error that it has in normal samples.
    """
    k, mean, (spread, skew) = len(sample), sample.mean(), _shape(sample)
    if sure:
        of_normal = float(np.sqrt(6 * (k - 2) / ((k + 1) * (k + 3))))
        skew = float(np.sign(skew)) * max(0.0, abs(skew) - of_normal)
    error = spread / np.sqrt(k - 1)
    return float(mean - _t_of(bound, skew, k) * error), float(mean - _t_of(-bound, skew, k) * error)


def _shape(sample: Floats) -> tuple[float, float]:
    """Return the standard deviation, with divisor k, and the skewness of ``(k,)``."""
    off = sample - sample.mean()
    spread = float(np.sqrt((off**2).mean()))
    return spread, float((off**3).mean()) / spread**3


def _t_of(bound: float, skew: float, k: int) -> float:
    """Return the t of k units whose transformed t, t + a t^2 / 3 + a^2 t^3 / 27 + a / 6, is `bound`.

    a is the skewness divided by the root of k.
    """
    wanted = bound / np.sqrt(k) - skew / (6 * k)
    if abs(skew) < _STRAIGHT:
        return float(wanted * np.sqrt(k))
    return float(3 / skew * (np.cbrt(1 + skew * wanted) - 1) * np.sqrt(k))


def _skewed_needed(sample: Floats, alpha: float) -> int | None:
    """Return how many units as skewed as these show on which side of zero their mean is, in four of five studies."""
    spread, skew = _shape(sample)
    side = 1.0 if sample.mean() > 0 else -1.0

    def needed_t(n: int) -> float:
        bound = quantile(alpha, n)
        return max(bound, side * _t_of(side * bound, skew, n))

    effect = abs(float(sample.mean())) / (spread * np.sqrt(len(sample) / (len(sample) - 1)))
    return units_needed(effect, alpha, needed_t) if effect > 0 else None


def jackknife(statistic: Callable[[npt.NDArray[np.bool_]], Floats], clusters: npt.ArrayLike) -> Floats:
    """Return what each cluster adds to a statistic other than a mean, such as a correlation: ``(*, k)``.

    These are pseudo-values (Tukey 1958; Efron and Stein, "The jackknife estimate of variance", Annals of Statistics
    1981). Their mean is the statistic of all units, and their spread gives its standard error, as with the numbers of a
    mean. More than `BATCHES` clusters are joined into that many groups.

    Args:
        statistic: takes a mask of units ``(n,)``, and returns an array of any shape ``(*)``.
        clusters: the name of each unit's cluster ``(n,)``.
    """
    codes, k = coded(np.asarray(clusters))
    if k > BATCHES:
        codes, k = codes % BATCHES, BATCHES
    without = np.stack([statistic(codes != code) for code in range(k)], axis=-1)
    whole = statistic(np.ones(len(codes), dtype=bool))
    return np.asarray(whole[..., None] + (k - 1) * (without.mean(axis=-1, keepdims=True) - without))
