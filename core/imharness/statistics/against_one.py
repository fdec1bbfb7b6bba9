"""Many entries against one, and one against the best of the others: simultaneous intervals of paired differences.

Two questions are narrower than "who is better than whom among all pairs", and each has more power alone:

- *Which entries are better than this one?* (no defense). The largest t of all entries, resampled together, gives ends
  that all hold at once (Dunnett, "A multiple comparison procedure for comparing several treatments with a control",
  JASA 1955; resampled as in Romano and Wolf, Econometrica 2005). Of the 5 %, 4 are spent on "better" and 1 on "worse".
  Step-down: once some entries are shown to be better, the others are asked among themselves.
- *Which entries may be the best?* An entry is ruled out if another one is better by more than the largest t that any
  other reaches against the best one by chance (Hsu, "Simultaneous confidence intervals for all distances from the
  'best'", Annals of Statistics 1981). The best one stays in the set in 95 % of studies.

A third question needs no correction: is the entry that is ahead better than each other one? Of two that are equally
good, the one that happens to be ahead is shown to be better, falsely, in at most as many studies as a two-sided test of
the two rejects; with more of them it happens less often, as it has to be shown against each (Gutmann and Maymin, "Is
the selected population the best?", Annals of Statistics 1987). See `shown_alone`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics.bootstrap import LEVEL
from imharness.statistics.clusters import FEWEST
from imharness.statistics.differences import (
    BATCHES,
    MANY,
    RESAMPLES,
    Floats,
    Intervals,
    Mask,
    batched,
    centred,
    largest_ahead,
    moments,
    quantile,
    smoothed,
    unseen,
)
from imharness.statistics.means import skewed_ends

BETTER, WORSE = 0.04, 0.01
"""How the 5 % of the family are spent: on entries said to be better, and on entries said to be worse."""


@dataclass(frozen=True)
class AgainstOne:
    """How much better each of m entries is than one, with ends that hold at once; NaN where nothing was measured.

    All arrays are ``(m,)``. `alphas`: the one-sided level of a single lower end and that of a single upper end. With
    them, some lower end is too high in a share `BETTER` of studies, and some upper end too low in a share `WORSE`.
    """

    value: Floats
    error: Floats
    units: npt.NDArray[np.int64]
    value_range: float
    alphas: tuple[float, float]
    better: Mask
    """Which entries are shown to be better, step by step."""
    worse: Mask
    """Which entries are shown to be worse."""
    limit: float = np.inf
    """As in `Intervals`."""

    @cached_property
    def low(self) -> Floats:
        """Lower ends; of an entry that is shown to be better otherwise, such as by a later step, 0 at least."""
        single = np.maximum(self.value - self._half(self.alphas[0]), -self.limit)
        return np.asarray(np.where(self.better, np.maximum(single, 0.0), single))

    @cached_property
    def high(self) -> Floats:
        """Upper ends; of an entry that is shown to be worse otherwise, 0 at most."""
        single = np.minimum(self.value + self._half(self.alphas[1]), self.limit)
        return np.asarray(np.where(self.worse, np.minimum(single, 0.0), single))

    def joined(self, better: Mask, worse: Mask) -> AgainstOne:
        """Return this with entries that the intervals of all pairs show to be better or worse, as well.

        With few entries, those intervals may be the shorter ones.
        """
        return replace(self, better=self.better | better, worse=self.worse | worse)

    def needed(self, i: int) -> int | None:
        """Return how many units show an entry to be better in four of five studies; None where it is not ahead."""
        if not self.value[i] > 0:
            return None
        return Intervals(self.value, self.error, self.units, 2 * self.alphas[0], self.value_range).needed_for(i)

    def _half(self, alpha: float) -> Floats:
        return Intervals(self.value, self.error, self.units, 2 * alpha, self.value_range).half


def against_one(
    unit_values: Floats,
    value_range: float,
    *,
    limit: float = np.inf,
    nearest: npt.ArrayLike = 0.0,
    resamples: int = RESAMPLES,
) -> AgainstOne:
    """Return m entries against one. `unit_values` ``(m, k)``: what each independent unit adds to the advantage of each.

    The values are `contributions` of differences. A unit that a pair lacks is NaN; in resamples it counts as the pair's
    mean. `value_range`: the largest difference of two numbers of one unit, and `limit`: as in `Intervals`. `nearest`:
    as in `imharness.statistics.differences.moments`.
    """
    value, error, units = moments(unit_values, nearest)
    rows = np.flatnonzero((units >= FEWEST) & (error > 0))  # the entries that are resampled
    resampled = _Resampled.of(unit_values[rows], resamples)
    alphas = resampled.alpha(BETTER, range(len(rows))), resampled.alpha(WORSE, range(len(rows)), sign=-1)
    none = np.zeros(len(unit_values), dtype=bool)
    first_step = AgainstOne(value, error, units, value_range, alphas, none, none, limit)
    first_step = replace(first_step, worse=np.nan_to_num(first_step.high, nan=1.0) < 0)
    better = np.nan_to_num(first_step.low, nan=-1.0) > 0
    while True:  # step by step, the entries that are not shown to be better yet are asked among themselves
        others = [i for i, row in enumerate(rows) if not better[row]]
        alpha = resampled.alpha(BETTER, others)
        further = list[int]()
        for row in rows[others]:
            low = value[row] - quantile(2 * alpha, int(units[row])) * error[row]
            if low > 0:
                further.append(row)
        if not further:
            return replace(first_step, better=better)
        better[further] = True


def best_alpha(unit_values: Floats, *, resamples: int = RESAMPLES) -> float:
    """Return the one-sided level of the intervals that rule an entry out as the best.

    An entry is ruled out if the interval of this level shows another one to be better. The level depends on which entry
    is the best in truth. As this is not known, the smallest of the m levels is returned.

    `unit_values` ``(m, k)``: `contributions` of entries.
    """
    measured = unit_values[~np.isnan(unit_values).all(axis=1)]
    m, k = measured.shape
    alone: float = 1 - LEVEL
    bonferroni: float = alone / max(m - 1, 1)
    if m < 2 or m > MANY or k < FEWEST:
        return bonferroni
    deviations = centred(measured)
    if not deviations.any():
        return bonferroni
    if k > BATCHES:
        deviations, k = batched(deviations), BATCHES
    pairs = m * (m - 1) // 2
    largest = np.concatenate([largest_ahead(draw) for draw in smoothed(deviations.T, pairs, resamples)])
    t_by_best = np.quantile(largest, LEVEL, axis=0)  # for each entry, if it is the best one
    return max(float(scipy.special.stdtr(k - 1, -t_by_best.max())), bonferroni / 4)


def shown_alone(unit_values: Floats, value_range: float, nearest: npt.ArrayLike = 0.0) -> Mask:
    """Return where a mean is shown to be above zero by itself, at the two-sided level of 5 %: ``(m,)``.

    `unit_values` ``(m, k)``: what each unit adds to each mean, NaN where it lacks one; `value_range` as in
    `Intervals`, `nearest` as in `imharness.statistics.differences.moments`. The lower end is the farther one of that of
    Student's t and that of the t corrected for skewness (see `imharness.statistics.means`). Of the skewness only the
    excess over its standard error in normal samples counts: with 12 units, the full correction costs a fifth of the
    clear differences, and normal numbers need none.
    """
    value, error, units = moments(unit_values, nearest)
    significant = np.zeros(len(unit_values), dtype=bool)
    for i in np.flatnonzero(units >= FEWEST):
        k = int(units[i])
        if error[i] > 0:
            finite = unit_values[i][~np.isnan(unit_values[i])]
            bound = quantile(1 - LEVEL, k)
            significant[i] = value[i] > bound * error[i] and skewed_ends(finite, bound, sure=True)[0] > 0
        else:
            significant[i] = value[i] > unseen(1 - LEVEL, k) * (value_range + abs(value[i]))
    return significant


@dataclass(frozen=True)
class _Resampled:
    """The t of entries in resamples of k units, ``(r, m)``; None for no or too many entries, which use Bonferroni."""

    t: Floats | None
    k: int

    @classmethod
    def of(cls, unit_values: Floats, resamples: int) -> _Resampled:
        m, k = unit_values.shape
        if not m or m > MANY:
            return cls(None, k)
        deviations = np.nan_to_num(unit_values - np.nanmean(unit_values, axis=1, keepdims=True))
        if k > BATCHES:
            deviations, k = batched(deviations), BATCHES
        draws = smoothed(deviations.T, m, resamples)
        t = [draw.mean(axis=1) / draw.std(axis=1, ddof=1) * np.sqrt(k) for draw in draws]
        return cls(np.concatenate(t), k)

    def alpha(self, level: float, entries: Sequence[int], sign: int = 1) -> float:
        """Return the one-sided level of one end with which any end of some entries fails in a share `level` of studies.

        `sign`: 1 for lower ends, -1 for upper ends.
        """
        bonferroni = level / max(len(entries), 1)
        if self.t is None or not len(entries):
            return bonferroni
        largest_t = np.quantile((sign * self.t[:, list(entries)]).max(axis=1), 1 - level)
        return min(max(float(scipy.special.stdtr(self.k - 1, -largest_t)), bonferroni / 4), level)
