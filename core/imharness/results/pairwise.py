"""Decides which entries are better than which, from a comparison and its numbers alone.

Everything that states that one entry is better than another uses `pairwise_intervals`: the interval of a place, a mark,
a claim, the site's Compare page and `imharness.compare`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.results.comparisons import Comparison
from imharness.statistics.differences import Differences, contributions, differences
from imharness.statistics.wilcoxon import resolution

Places = tuple[list[npt.NDArray[np.int64]], list[str], npt.NDArray[np.str_] | None]


def places(comparison: Comparison) -> Places:
    """Return the positions of each unit set's units among all units, the names of these, and their clusters if any."""
    names = sorted({unit for units in comparison.unit_sets for unit in units})
    index = {name: i for i, name in enumerate(names)}
    sets = [np.array([index[name] for name in units], dtype=np.int64) for units in comparison.unit_sets]
    clusters = dict(zip(*map(itertools.chain.from_iterable, (comparison.unit_sets, comparison.clusters)), strict=False))
    return sets, names, np.array([clusters[name] for name in names]) if comparison.clusters else None


class Group(NamedTuple):
    """Conditions that differ only in the facets `Comparison.over`.

    `at` are the positions of their units, ``(u,)``. `gains` is the worst gain of each unit under any of them,
    ``(entries, u)``; a higher gain is better, and NaN means none.
    """

    at: npt.NDArray[np.int64]
    gains: npt.NDArray[np.float64]


def groups_of(comparison: Comparison, numbers: npt.NDArray[np.floating], where: Places | None = None) -> list[Group]:
    """Return the groups of conditions of a comparison, with its numbers ``(entries, total)``."""
    starts, sets = comparison.starts(), (where or places(comparison))[0]
    sign = 1 if comparison.better == "higher" else -1
    keys: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for c, condition in enumerate(comparison.conditions):
        facets = sorted(condition.facets.items()) if comparison.over else [("", str(c))]
        keys.setdefault(tuple((k, v) for k, v in facets if k not in comparison.over), []).append(c)
    groups = []
    for members in keys.values():
        at = np.unique(np.concatenate([sets[comparison.conditions[c].units] for c in members]))
        worst = np.full((len(numbers), len(at)), np.nan)
        for c in members:
            here = np.searchsorted(at, sets[comparison.conditions[c].units])
            block = sign * numbers[:, starts[c] : starts[c + 1]].astype(np.float64)
            worst[:, here] = np.fmin(worst[:, here], np.where(np.isfinite(block), block, np.nan))
        groups.append(Group(at, worst))
    return groups


class _Gains:
    """What the units of a comparison say of each entry: ``(entries, n)`` by unit, more is better, NaN without one."""

    def __init__(self, comparison: Comparison, numbers: npt.NDArray[np.floating]) -> None:
        where = places(comparison)
        self.groups, self.n = groups_of(comparison, numbers, where), len(where[1])
        for group in self.groups:
            group.gains[[label in comparison.incomplete for label in comparison.entries]] = np.nan
        self.clusters, self.weights = where[2], weights_of(comparison, where)
        self.rows = unit_gains(self.groups, self.n)
        some = ~np.isnan(self.rows).all(axis=1)
        self.alike = all((np.isnan(g.gains[some]) == np.isnan(g.gains[some][:1])).all() for g in self.groups)

    def over_each(self, i: int) -> npt.NDArray[np.float64]:
        """Return the advantage of an entry over each by unit, over the groups that both have ``(entries, n)``."""
        if self.alike:
            return np.asarray(self.rows[i] - self.rows)
        return unit_gains([g._replace(gains=g.gains[i] - g.gains) for g in self.groups], self.n)


def pairwise_intervals(comparison: Comparison, numbers: npt.NDArray[np.floating]) -> Differences:
    """Return the differences of all pairs of entries, in their order; `numbers` is ``(entries, total)``.

    Each unit counts once: its worst over the facets ``over``, and then the mean over the other facets that both entries
    have. If the level of the intervals is known, as in a stored comparison, nothing is resampled.
    """
    gains = _Gains(comparison, numbers)
    return differences(
        gains.rows,
        gains.clusters,
        gains.weights,
        alpha_and_range=None if (alpha := comparison.pairwise_alpha) is None else (alpha, comparison.value_range),
        against=None if gains.alike else gains.over_each,
        limit=limit_of(comparison),
        nearest=resolution(numbers),
    )


def limit_of(comparison: Comparison) -> float:
    """Return what no difference of two means of a comparison can exceed."""
    return np.inf if comparison.limit is None else comparison.limit


class Advantage(NamedTuple):
    """How much better one entry is than each other one, on each unit ``(entries, n)``, and the clusters of units.

    `contributions`: what each independent unit adds to the mean ``(entries, k)``. `nearest`: how near two advantages
    are that may be equal ``(entries,)``, see `imharness.statistics.wilcoxon.resolution`.
    """

    rows: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.str_] | None
    contributions: npt.NDArray[np.float64]
    nearest: npt.NDArray[np.float64]


def advantage(comparison: Comparison, numbers: npt.NDArray[np.floating], entry: str) -> Advantage:
    """Return the advantage of an entry over every entry, in their order."""
    gains = _Gains(comparison, numbers)
    i, near = comparison.entries.index(entry), resolution(numbers)
    rows = gains.over_each(i)
    unit_values = contributions(rows, gains.clusters, gains.weights)
    return Advantage(rows, gains.clusters, unit_values, np.maximum(near, near[i]))


def by_unit(comparison: Comparison, numbers: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return what each independent unit adds to the mean of each entry, in their order ``(entries, k)``."""
    gains = _Gains(comparison, numbers)
    return contributions(gains.rows, gains.clusters, gains.weights)


def unit_gains(groups: Sequence[Group], n: int) -> npt.NDArray[np.float64]:
    """Return the mean of each unit over the groups that have it, ``(entries, n)``, or NaN if no group has it."""
    size = len(groups[0].gains) if groups else 0
    total, count = np.zeros((2, size, n))
    for at, gains in groups:
        total[:, at] += np.nan_to_num(gains)
        count[:, at] += ~np.isnan(gains)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def weights_of(comparison: Comparison, where: Places) -> npt.NDArray[np.float64] | None:
    """Return a weight for each unit, so that the values of the facet `balanced` weigh the same, or None without it."""
    if not comparison.balanced:
        return None
    levels = np.empty(len(where[1]), dtype=object)
    for condition in comparison.conditions:
        levels[where[0][condition.units]] = condition.facets[comparison.balanced]
    _, codes, sizes = np.unique(levels.astype(str), return_inverse=True, return_counts=True)
    return np.asarray(len(levels) / len(sizes) / sizes[codes])
