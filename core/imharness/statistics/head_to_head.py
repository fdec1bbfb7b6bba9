"""Two or more entries on the same units: who is shown to be better, a paired test, the effect size, tie groups.

The site's page computes the same. Every unit counts once. Where units belong to clusters, such as images of one
photograph, each cluster counts once, with the mean over its units. The interval is the one that the entries have among
all others (`imharness.statistics.differences`), so that of two entries alone one is shown to be better exactly if it is
among all. The test is Wilcoxon's signed-rank test. Effect size: the matched-pairs rank-biserial correlation (Kerby,
"The simple difference formula", Comprehensive Psychology 2014), the share of rank sum in favour minus the share
against. Both take for ties what only rounding parts (`imharness.statistics.wilcoxon.resolution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import Interval
from imharness.statistics.clusters import cluster_means, clusters_both
from imharness.statistics.differences import Intervals, contributions, moments
from imharness.statistics.wilcoxon import rank_biserial

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


def head_to_head(
    advantages: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    weights: Floats | None = None,
    *,
    alpha: float,
    value_range: float = 0.0,
    limit: float = np.inf,
    tests: int = 2,
    nearest: float = 0.0,
) -> HeadToHead:
    """Compare two entries by the first's advantage on each unit ``(n,)``, more is better, NaN where one has no number.

    `clusters`: the name of each unit's cluster, `weights`: how much each unit counts ``(n,)``. `alpha`, `value_range`
    and `limit`: of the simultaneous intervals among all entries, see `imharness.statistics.differences.Intervals`.
    `nearest`: how near two advantages are that may be equal. Raises `NotTestable` without shared units.
    """
    values = np.asarray(advantages, dtype=np.float64)
    finite = ~np.isnan(values)
    if not finite.any():
        raise NotTestable("the two entries share no unit")
    d, names = values[finite], None if clusters is None else np.asarray(clusters)[finite]
    unit_values = contributions(d[None], names, None if weights is None else weights[finite])
    intervals = Intervals(*moments(unit_values, nearest), alpha, value_range, limit=limit)
    better, worse = (float(p[0]) for p in clusters_both(d, names, nearest))
    means = d[None] if names is None else cluster_means(d[None], names)
    count = None if names is None else unit_values.shape[1]
    return HeadToHead(
        Interval(float(intervals.value[0]), float(intervals.low[0]), float(intervals.high[0]), len(d), count),
        better,
        worse,
        tests,
        float(rank_biserial(means, nearest)[0]),
    )


def tie_groups(order: Sequence[int], beats: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return groups of entries: first the best and all that it does not beat, then the same for the rest.

    `order`: entries, the best first; ``beats[i, j]``: whether i is shown to be better than j.
    """
    remaining, groups = list(order), []
    while remaining:
        leader = remaining[0]
        group = [entry for entry in remaining if entry == leader or not beats[leader, entry]]
        groups.append(group)
        remaining = [entry for entry in remaining if entry not in group]
    return groups
