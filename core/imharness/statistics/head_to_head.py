"""Two or more entries on the same units: who is shown to be better, a paired test, the effect size, tie groups.

The site's page computes the same. Every unit counts once. Where units belong to clusters, such as images of one
photograph, each cluster counts once, with the mean over its units. The interval is the one that the entries have among
all others (`imharness.statistics.differences`), so that of two entries alone one is shown to be better exactly if it is
among all. The test is Wilcoxon's signed-rank test, whose differences are rounded to float32 so that both sides see the
same ties. Effect size: the matched-pairs rank-biserial correlation (Kerby, "The simple difference formula",
Comprehensive Psychology 2014), the share of rank sum in favour minus the share against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import RESAMPLES, Interval
from imharness.statistics.clusters import cluster_means, clusters_both
from imharness.statistics.differences import Told, contributions, moments

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class HeadToHead:
    """How a first entry compares with a second one.

    `difference`: mean advantage of the first, in units of the measure, with its simultaneous interval. `better` and
    `worse`: one-sided p-values over units or clusters, NaN if none differs or clusters are too few; `tests`: the number
    of such tests, two for each pair of entries. `effect`: rank-biserial correlation in [-1, 1].
    """

    difference: Interval
    better: float
    worse: float
    tests: int
    effect: float

    def corrected(self, p: float) -> float:
        """Return a p-value corrected for all `tests` (Bonferroni)."""
        return min(p * self.tests, 1.0)


def resampled(n: int, resamples: int = RESAMPLES, first: int = 0) -> npt.NDArray[np.int64]:
    """Return positions ``(resamples, n)`` in [0, n): hash(hash(r + 1) + i) * n / 2**32, rounded down.

    r counts from `first`.
    """
    rows = _hash(np.arange(first + 1, first + resamples + 1).astype(np.uint32))
    cells = _hash(rows[:, None] + np.arange(n).astype(np.uint32))
    return ((cells.astype(np.uint64) * np.uint64(n)) >> np.uint64(32)).astype(np.int64)


def _hash(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Mix 32 bits (Wellons' "lowbias32")."""
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def head_to_head(
    advantages: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    weights: Floats | None = None,
    *,
    tail: float,
    reach: float = 0.0,
    tests: int = 2,
) -> HeadToHead:
    """Compare two entries by the first's advantage on each unit ``(n,)``, more is better, NaN where one has no number.

    `clusters`: the name of each unit's cluster, `weights`: how much each unit counts ``(n,)``. `tail` and `reach`: of
    the simultaneous intervals among all entries, see `imharness.statistics.differences.Told`. Raises `NotTestable`
    without shared units.
    """
    given = np.asarray(advantages, dtype=np.float64)
    known = ~np.isnan(given)
    if not known.any():
        raise NotTestable("the two entries share no unit")
    d, names = given[known], None if clusters is None else np.asarray(clusters)[known]
    parts = contributions(d[None], names, None if weights is None else weights[known])
    told = Told(*moments(parts), tail, reach)
    rounded = d.astype(np.float32).astype(np.float64)
    better, worse = (float(p[0]) for p in clusters_both(rounded, names))
    means = rounded if names is None else cluster_means(rounded[None], names)[0]
    count = None if names is None else parts.shape[1]
    return HeadToHead(
        Interval(float(told.value[0]), float(told.low[0]), float(told.high[0]), len(d), count),
        better,
        worse,
        tests,
        float(rank_biserial(means[None])[0]),
    )


def rank_biserial(differences: Floats) -> Floats:
    """Return the matched-pairs rank-biserial correlation of each row of ``(k, n)``; 0 where nothing differs."""
    zero, differences = differences == 0, differences.astype(np.float64)  # rankdata may keep float32
    ranks = scipy.stats.rankdata(np.abs(differences), axis=1) - zero.sum(axis=1, keepdims=True)
    ranks = np.where(zero, 0.0, ranks)
    total = ranks.sum(axis=1)
    signed = (ranks * np.sign(differences)).sum(axis=1)
    return np.asarray(np.divide(signed, total, out=np.zeros_like(total), where=total > 0))


def tie_groups(order: Sequence[int], beats: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return groups of entries: first the best and all that it does not beat, then the same for the rest.

    `order`: entries, the best first; ``beats[i, j]``: i is significantly better than j.
    """
    left, groups = list(order), []
    while left:
        leader = left[0]
        group = [entry for entry in left if entry == leader or not beats[leader, entry]]
        groups.append(group)
        left = [entry for entry in left if entry not in group]
    return groups
