"""Decides which entries are better than which, from a comparison and its numbers alone.

Everything that states that one entry is better than another uses `pairwise_intervals`: the interval of a rank, a mark
in a table, a headline, the site's Compare page and `imharness.compare`.

A *gain* is a number of an entry whose sign was changed where less is better, so that more gain is always better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.documents.comparisons import Comparison
from imharness.statistics.differences import Differences, contributions, differences
from imharness.statistics.wilcoxon import resolution


class Places(NamedTuple):
    """Where the units of a comparison are.

    `names`: all n units, sorted. `sets`: for each of the comparison's unit sets, the positions of its units among
    `names`. `clusters`: the cluster of each unit ``(n,)``; None where units are independent.
    """

    sets: list[npt.NDArray[np.int64]]
    names: list[str]
    clusters: npt.NDArray[np.str_] | None


def places(comparison: Comparison) -> Places:
    """Return where the units of a comparison are."""
    names = sorted({unit for units in comparison.unit_sets for unit in units})
    index = {name: i for i, name in enumerate(names)}
    sets = [np.array([index[name] for name in units], dtype=np.int64) for units in comparison.unit_sets]
    if not comparison.clusters:
        return Places(sets, names, None)
    cluster_of: dict[str, str] = {}
    for units, clusters in zip(comparison.unit_sets, comparison.clusters, strict=True):
        cluster_of.update(zip(units, clusters, strict=True))
    return Places(sets, names, np.array([cluster_of[name] for name in names]))


class Group(NamedTuple):
    """Conditions that differ only in the facets `Comparison.over`.

    `at` are the positions of their units, ``(u,)``. `gains` is the worst gain of each unit under any of them,
    ``(entries, u)``; a higher gain is better, and NaN means none.
    """

    at: npt.NDArray[np.int64]
    gains: npt.NDArray[np.float64]


def groups_of(comparison: Comparison, numbers: npt.NDArray[np.floating], where: Places | None = None) -> list[Group]:
    """Return the groups of conditions of a comparison; without `Comparison.over` each condition is a group.

    `numbers`: those of the comparison ``(entries, total)``. `where`: what `places` returns, if that is known already.
    """
    starts, sets = comparison.starts(), (where or places(comparison)).sets
    sign = 1 if comparison.better == "higher" else -1
    conditions_by_facets: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for c, condition in enumerate(comparison.conditions):
        facets = sorted(condition.facets.items()) if comparison.over else [("", str(c))]
        other_facets = tuple((name, value) for name, value in facets if name not in comparison.over)
        conditions_by_facets.setdefault(other_facets, []).append(c)
    groups = []
    for members in conditions_by_facets.values():
        at = np.unique(np.concatenate([sets[comparison.conditions[c].units] for c in members]))
        worst = np.full((len(numbers), len(at)), np.nan)
        for c in members:
            here = np.searchsorted(at, sets[comparison.conditions[c].units])
            block = sign * numbers[:, starts[c] : starts[c + 1]].astype(np.float64)
            worst[:, here] = np.fmin(worst[:, here], np.where(np.isfinite(block), block, np.nan))
        groups.append(Group(at, worst))
    return groups


class _Gains:
    """The gains of each entry on the units of a comparison.

    Attributes:
        groups: the groups of conditions; incomplete entries have NaN in all of them.
        n: how many units there are.
        clusters, weights: of the units, ``(n,)`` each, or None.
        rows: the mean gain over the groups ``(entries, n)``, NaN where an entry has no number for a unit.
        alike: whether all entries that have numbers have them for the same units in the same groups. Differences of
            `rows` are then those of the groups.
    """

    def __init__(self, comparison: Comparison, numbers: npt.NDArray[np.floating]) -> None:
        where = places(comparison)
        self.groups, self.n = groups_of(comparison, numbers, where), len(where.names)
        for group in self.groups:
            group.gains[[label in comparison.incomplete for label in comparison.entries]] = np.nan
        self.clusters, self.weights = where.clusters, weights_of(comparison, where)
        self.rows = unit_gains(self.groups, self.n)
        some = ~np.isnan(self.rows).all(axis=1)
        self.alike = all((np.isnan(g.gains[some]) == np.isnan(g.gains[some][:1])).all() for g in self.groups)

    def over_each(self, i: int) -> npt.NDArray[np.float64]:
        """Return how much better entry i is than each entry, unit by unit ``(entries, n)``.

        The gains of two entries are compared group by group, over the groups in which both have the unit.
        """
        if self.alike:
            return np.asarray(self.rows[i] - self.rows)
        return unit_gains([g._replace(gains=g.gains[i] - g.gains) for g in self.groups], self.n)


def pairwise_intervals(comparison: Comparison, numbers: npt.NDArray[np.floating]) -> Differences:
    """Return the differences of all pairs of entries, in the order of `Comparison.entries`.

    Each unit counts once: first its worst number over the facets ``over`` is taken, and then the mean over the groups
    of the other facets that both entries have. If the level of the intervals is known, as in a stored comparison,
    nothing is resampled. `numbers`: those of the comparison ``(entries, total)``.
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
    """How much better one entry is than each entry of a comparison.

    `rows`: by how much on each unit ``(entries, n)``. `clusters`: the cluster of each unit ``(n,)``, or None.
    `contributions`: what each independent unit adds to the mean advantage ``(entries, k)``. `nearest`: two advantages
    over an entry that differ by no more than this may be equal, and parted by rounding alone ``(entries,)``; see
    `imharness.statistics.wilcoxon.resolution`.
    """

    rows: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.str_] | None
    contributions: npt.NDArray[np.float64]
    nearest: npt.NDArray[np.float64]


def advantage(comparison: Comparison, numbers: npt.NDArray[np.floating], entry: str) -> Advantage:
    """Return the advantage of an entry over every entry of a comparison, in the order of `Comparison.entries`."""
    gains = _Gains(comparison, numbers)
    i, near = comparison.entries.index(entry), resolution(numbers)
    rows = gains.over_each(i)
    unit_values = contributions(rows, gains.clusters, gains.weights)
    return Advantage(rows, gains.clusters, unit_values, np.maximum(near, near[i]))


def by_unit(comparison: Comparison, numbers: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return what each independent unit adds to the mean gain of each entry ``(entries, k)``."""
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
    """Return a weight for each unit ``(n,)``, so that all values of the facet `balanced` have the same total weight.

    None where a comparison has no such facet.
    """
    if not comparison.balanced:
        return None
    levels = np.empty(len(where.names), dtype=object)
    for condition in comparison.conditions:
        levels[where.sets[condition.units]] = condition.facets[comparison.balanced]
    _, codes, sizes = np.unique(levels.astype(str), return_inverse=True, return_counts=True)
    return np.asarray(len(levels) / len(sizes) / sizes[codes])
