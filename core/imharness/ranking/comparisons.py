"""Long rows of per-unit scores -> what is compared pairwise: win rates and marks of a ranking."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from imharness.ranking.tables import win_table
from imharness.results.records import Comparison, Condition, Table
from imharness.statistics.clusters import gaps_greater
from imharness.statistics.wilcoxon import adjust
from imharness.statistics.win_rates import ALPHA, WinRates, win_rates

Floats = npt.NDArray[np.float32]
Places = tuple[list[npt.NDArray[np.int64]], list[str], npt.NDArray[np.str_] | None]


@dataclass(frozen=True)
class PairedScores:
    """Scores of entries on the same units, condition by condition; what a track hands over for pairwise tests.

    `values`: one float32 array ``(entries, units)`` per condition, NaN where there is no finite number.
    `clusters`: for each condition the cluster of each unit, empty where units are independent; clusters of one name are
    one, whatever the condition. `cluster_unit`: what a cluster is ("photograph").
    """

    id: str
    title: str
    about: str
    """What winning means: "lower D"."""
    entry: str
    measure: str
    description: str
    better: Literal["higher", "lower"]
    entries: tuple[str, ...]
    conditions: tuple[Mapping[str, str], ...]
    units: tuple[tuple[str, ...], ...]
    values: Sequence[Floats]
    clusters: tuple[tuple[str, ...], ...] = ()
    decimals: int = 3
    unit: str = "image"
    cluster_unit: str = ""
    families: Mapping[str, str] = field(default_factory=dict)
    table: str = ""
    column: str = ""
    rates: WinRates = field(init=False, compare=False)
    numbers: Floats = field(init=False, compare=False)
    """All `values` in one array ``(entries, total)``, the conditions one after the other."""

    def __post_init__(self) -> None:
        ends = list(itertools.accumulate(map(len, self.units), initial=0))
        numbers = np.empty((len(self.entries), ends[-1]), np.float32)
        finite = tuple(numbers[:, start:end] for start, end in itertools.pairwise(ends))
        for own, given in zip(finite, self.values, strict=True):
            own[:] = np.where(np.isfinite(given), given, np.float32(np.nan))
        rates = win_rates(finite, higher_wins=self.better == "higher", clusters=self.clusters)
        for name, found in (("numbers", numbers), ("values", finite), ("rates", rates)):
            object.__setattr__(self, name, found)

    def wins(self) -> Table:
        """Return the win-rate matrix."""
        sources = f"{self.cluster_unit or 'source'}s" if self.clusters else ""
        return win_table(self.id, self.title, self.entry, self.entries, self.rates, self.about, sources)

    def stored(self) -> tuple[Comparison, Floats]:
        """Return the comparison as data, and its numbers ``(entries, total)``."""
        named = list(zip(self.units, self.clusters or [()] * len(self.units), strict=True))
        sets = {own: place for place, own in enumerate(dict.fromkeys(named))}
        comparison = Comparison(
            id=self.id, title=self.title, entry=self.entry, measure=self.measure, description=self.description,
            better=self.better, decimals=self.decimals, unit=self.unit, cluster_unit=self.cluster_unit,
            entries=self.entries, tests=self.rates.comparisons, alpha=ALPHA, table=self.table, column=self.column,
            families={label: self.families[label] for label in self.entries if label in self.families},
            conditions=tuple(
                Condition(facets=facets, units=sets[own]) for facets, own in zip(self.conditions, named, strict=True)
            ),
            unit_sets=tuple(units for units, _ in sets),
            clusters=tuple(clusters for _, clusters in sets) if self.clusters else (),
        )  # fmt: skip
        return comparison, self.numbers


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
