"""Decides which entries are better than which, from a comparison and its numbers alone.

Everything that states that one entry is better than another uses `told_of`: the interval of a place, a mark, a claim,
the site's Compare page and `imharness.compare`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.results.comparisons import Comparison
from imharness.statistics.differences import Differences, differences

Places = tuple[list[npt.NDArray[np.int64]], list[str], npt.NDArray[np.str_] | None]


def places(comparison: Comparison) -> Places:
    """Return the positions of each unit set's units among all units, the names of these, and their clusters if any."""
    names = sorted({unit for units in comparison.unit_sets for unit in units})
    place = {name: i for i, name in enumerate(names)}
    sets = [np.array([place[name] for name in units], dtype=np.int64) for units in comparison.unit_sets]
    known = dict(zip(*map(itertools.chain.from_iterable, (comparison.unit_sets, comparison.clusters)), strict=False))
    return sets, names, np.array([known[name] for name in names]) if comparison.clusters else None


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
    found = []
    for own in keys.values():
        at = np.unique(np.concatenate([sets[comparison.conditions[c].units] for c in own]))
        worst = np.full((len(numbers), len(at)), np.nan)
        for c in own:
            here = np.searchsorted(at, sets[comparison.conditions[c].units])
            block = sign * numbers[:, starts[c] : starts[c + 1]].astype(np.float64)
            worst[:, here] = np.fmin(worst[:, here], np.where(np.isfinite(block), block, np.nan))
        found.append(Group(at, worst))
    return found


def told_of(comparison: Comparison, numbers: npt.NDArray[np.floating]) -> Differences:
    """Return the differences of all pairs of entries, in their order; `numbers` is ``(entries, total)``.

    Each unit counts once: its worst over the facets ``over``, and then the mean over the other facets that both entries
    have. If the tail of the intervals is known, as in a stored comparison, nothing is resampled.
    """
    where = places(comparison)
    groups, n = groups_of(comparison, numbers, where), len(where[1])
    for group in groups:
        group.gains[[label in comparison.incomplete for label in comparison.entries]] = np.nan
    known = None if comparison.tail is None else (comparison.tail, comparison.reach)
    own = unit_gains(groups, n)
    part = ~np.isnan(own).all(axis=1)
    alike = all((np.isnan(group.gains[part]) == np.isnan(group.gains[part][:1])).all() for group in groups)
    return differences(
        own,
        where[2],
        weights_of(comparison, where),
        known=known,
        against=None if alike else lambda i: unit_gains([g._replace(gains=g.gains[i] - g.gains) for g in groups], n),
    )


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
    own = np.empty(len(where[1]), dtype=object)
    for condition in comparison.conditions:
        own[where[0][condition.units]] = condition.facets[comparison.balanced]
    _, place, sizes = np.unique(own.astype(str), return_inverse=True, return_counts=True)
    return np.asarray(len(own) / len(sizes) / sizes[place])
