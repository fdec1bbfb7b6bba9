"""Long rows of per-unit scores -> what is compared pairwise: win rates and marks of a ranking."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imharness.results.comparisons import Comparison
from imharness.statistics.clusters import gaps_greater
from imharness.statistics.wilcoxon import adjust

Floats = npt.NDArray[np.float32]
Places = tuple[list[npt.NDArray[np.int64]], list[str], npt.NDArray[np.str_] | None]


def places(comparison: Comparison) -> Places:
    """Return the places of each unit set's units among all units by name, these names, and their clusters if any."""
    names = sorted({unit for units in comparison.unit_sets for unit in units})
    place = {name: i for i, name in enumerate(names)}
    sets = [np.array([place[name] for name in units], dtype=np.int64) for units in comparison.unit_sets]
    known = dict(zip(*map(itertools.chain.from_iterable, (comparison.unit_sets, comparison.clusters)), strict=False))
    return sets, names, np.array([known[name] for name in names]) if comparison.clusters else None


def not_worse(comparison: Comparison, numbers: Floats, best: str) -> tuple[str, ...]:
    """Return the entries that the best one does not beat, of those that share a unit with it.

    As the same numbers say which one is the best, the test is corrected over all pairs (`Pairwise.beats`).
    """
    tested, i = pairwise(comparison, numbers), comparison.entries.index(best)
    kept = tested.shared[i] & ~tested.beats(comparison.alpha)[i]
    return tuple(label for j, label in enumerate(comparison.entries) if kept[j] and j != i)


@dataclass(frozen=True)
class Pairwise:
    """All entries of a comparison against each other, every unit counted once with its mean over the conditions.

    `means`: ``(entries,)``; `p`: ``(entries, entries)``, one-sided, that the row is better than the column, by clusters
    where there are any, not corrected, NaN where not testable; `shared`: where both have a number for the same unit
    and condition; `order`: entries, the best mean first.
    """

    means: npt.NDArray[np.float64]
    p: npt.NDArray[np.float64]
    shared: npt.NDArray[np.bool_]
    order: list[int]

    def beats(self, alpha: float) -> npt.NDArray[np.bool_]:
        """Return where the row is significantly better, Bonferroni-corrected over all pairs that can be tested."""
        return np.nan_to_num(adjust(self.p), nan=1.0) < alpha


def pairwise(comparison: Comparison, numbers: Floats) -> Pairwise:
    """Test every entry of a stored comparison against every other one."""
    size, where = len(comparison.entries), places(comparison)
    sign = 1 if comparison.better == "higher" else -1
    own, clusters = unit_means(comparison, numbers, where), where[2]
    means = np.array([row[~np.isnan(row)].mean() if not np.isnan(row).all() else np.nan for row in own])
    p, shared = np.full((size, size), np.nan), np.zeros((size, size), dtype=bool)
    for i in range(size):
        pooled_gains = sign * unit_means(comparison, numbers, where, over=i).astype(np.float32).astype(np.float64)
        shared[i], p[i] = ~np.isnan(pooled_gains).all(axis=1), gaps_greater(pooled_gains, clusters)
    order = sorted(range(size), key=lambda i: (np.isnan(means[i]), -sign * means[i], comparison.entries[i]))
    return Pairwise(means, p, shared, order)


def unit_means(
    comparison: Comparison, numbers: npt.NDArray[np.floating], where: Places | None = None, over: int | None = None
) -> npt.NDArray[np.float64]:
    """Return ``(k, units)`` of ``(k, total)``: each unit's mean over the conditions that have a number, or NaN.

    `over`: of the differences that are left when each row is taken from this one.
    """
    starts, (sets, names, _) = comparison.starts(), where or places(comparison)
    wide = [slice(None) if np.array_equal(at, np.arange(len(names))) else at for at in sets]
    total, count = np.zeros((2, len(numbers), len(names)))
    for (start, end), condition in zip(itertools.pairwise(starts), comparison.conditions, strict=True):
        block = numbers[:, start:end].astype(np.float64)
        known = ~np.isnan(block := block if over is None else block[over] - block)
        total[:, wide[condition.units]] += np.where(known, block, 0)
        count[:, wide[condition.units]] += known
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
