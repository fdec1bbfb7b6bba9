"""Two or more entries on the same units: paired test, effect size, tie groups. The site's page computes the same.

Every unit counts once, with the mean of its differences over the conditions, rounded to float32 so that both sides see
the same ties. Where units belong to clusters, such as images of one photograph, the test and the effect size see each
cluster once, with the mean over its units. Effect size: the matched-pairs rank-biserial correlation (Kerby, "The simple
difference formula", Comprehensive Psychology 2014), the share of rank sum in favour minus the share against. Intervals:
percentiles over resampled units or clusters; positions come from an integer hash, which any language repeats bit by
bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import RESAMPLES, Interval, percentiles
from imharness.statistics.clusters import cluster_means, clusters_both, coded

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class HeadToHead:
    """What can be said of a first entry against a second one.

    `better` and `worse`: one-sided p-values over units or clusters, NaN when none differs or clusters are too few.
    `difference`: mean advantage of the first, in units of the measure. `effect`: rank-biserial correlation in [-1, 1].
    `wins`, `losses`, `tested`: conditions in which each is significant at `alpha` corrected for the pool, and those
    that could be tested.
    """

    better: float
    worse: float
    difference: Interval
    effect: Interval
    wins: int
    losses: int
    tested: int


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


def pooled(advantages: Sequence[npt.NDArray[np.floating]], units: Sequence[npt.NDArray[np.int64]], n: int) -> Floats:
    """Return the mean advantage of each unit ``(n,)``, rounded to float32, NaN where it has none.

    `advantages`: one array per condition, NaN where one of the two entries has no number; `units`: its places in
    0..n-1.
    """
    total, count = np.zeros(n), np.zeros(n)
    for values, places in zip(advantages, units, strict=True):
        known = ~np.isnan(values)
        total[places[known]] += values[known]
        count[places[known]] += 1
    means = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
    return np.asarray(means.astype(np.float32), dtype=np.float64)


def head_to_head(
    advantages: Sequence[npt.NDArray[np.floating]],
    units: Sequence[npt.NDArray[np.int64]],
    *,
    tests: int,
    alpha: float,
    clusters: npt.ArrayLike | None = None,
) -> HeadToHead:
    """Compare two entries. Arguments as in `pooled`, an advantage being the first's score minus the second's, turned
    so that more is better; p-values of conditions are multiplied by `tests`. `clusters`: the name of each unit's
    cluster, by place. Raises `NotTestable` without shared units.
    """
    places = [np.asarray(p) for p in units]
    n = 1 + max((int(p.max()) for p in places if len(p)), default=-1)
    d = pooled(advantages, places, n)
    known = ~np.isnan(d)
    if not known.any():
        raise NotTestable("the two entries share no unit")
    names = None if clusters is None else np.asarray(clusters)
    wins = losses = tested = 0
    for values, at in zip(advantages, places, strict=True):
        here = ~np.isnan(values)
        own = np.asarray(values, dtype=np.float64)[here]
        if len(own):
            up, down = (p[0] for p in clusters_both(own, None if names is None else names[at[here]]))
            tested += int(not np.isnan(up))
            wins += int(up * tests < alpha)
            losses += int(down * tests < alpha)
    d, names = d[known], None if names is None else names[:n][known]
    better, worse = (p[0] for p in clusters_both(d, names))
    codes, k = coded(np.arange(len(d)) if names is None else names)
    means = d if names is None else cluster_means(d[None], codes)[0]
    count = None if names is None else k
    drawn = resampled(k)
    differences = np.bincount(codes, d)[drawn].sum(axis=1) / np.bincount(codes)[drawn].sum(axis=1)
    effects = rank_biserial(means[drawn])

    def around(value: float, estimates: Floats) -> Interval:
        low, high = percentiles(estimates, count)
        return Interval(float(value), float(low), float(high), len(d), count)

    return HeadToHead(
        better=float(better),
        worse=float(worse),
        difference=around(d.mean(), differences),
        effect=around(rank_biserial(means[None])[0], effects),
        wins=wins,
        losses=losses,
        tested=tested,
    )


def rank_biserial(differences: Floats) -> Floats:
    """Return the matched-pairs rank-biserial correlation of each row of ``(k, n)``; 0 where nothing differs."""
    zero = differences == 0
    ranks = scipy.stats.rankdata(np.abs(differences), axis=1) - zero.sum(axis=1, keepdims=True)
    ranks = np.where(zero, 0.0, ranks)
    total = ranks.sum(axis=1)
    signed = (ranks * np.sign(differences)).sum(axis=1)
    return np.asarray(np.divide(signed, total, out=np.zeros_like(total), where=total > 0))


def tie_groups(order: Sequence[int], beats: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return groups of entries: the first holds the best and all that it does not beat, then the same of the rest.

    `order`: entries, the best first; ``beats[i, j]``: i is significantly better than j.
    """
    left, groups = list(order), []
    while left:
        leader = left[0]
        group = [entry for entry in left if entry == leader or not beats[leader, entry]]
        groups.append(group)
        left = [entry for entry in left if entry not in group]
    return groups
