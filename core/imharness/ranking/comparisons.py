"""Long rows of per-unit scores -> what is compared pairwise: win rates and marks of a ranking."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from imharness.ranking.tables import win_table
from imharness.results.records import Comparison, Condition, Table
from imharness_statistics.clusters import clusters_greater
from imharness_statistics.wilcoxon import adjust
from imharness_statistics.win_rates import ALPHA, WinRates, win_rates

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
    values: tuple[Floats, ...]
    clusters: tuple[tuple[str, ...], ...] = ()
    decimals: int = 3
    unit: str = "image"
    cluster_unit: str = ""
    families: Mapping[str, str] = field(default_factory=dict)
    table: str = ""
    column: str = ""
    rates: WinRates = field(init=False, compare=False)

    def __post_init__(self) -> None:
        finite = tuple(np.where(np.isfinite(block), block, np.float32(np.nan)) for block in self.values)
        rates = win_rates(finite, higher_wins=self.better == "higher", clusters=self.clusters)
        object.__setattr__(self, "values", finite)
        object.__setattr__(self, "rates", rates)

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
        return comparison, np.concatenate([*self.values, np.zeros((len(self.entries), 0), np.float32)], axis=1)


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
        gains = sign * (numbers[i].astype(np.float64) - numbers.astype(np.float64))
        pooled_gains = unit_means(comparison, gains, where).astype(np.float32).astype(np.float64)
        for j in range(size):
            both = ~np.isnan(pooled_gains[j])
            shared[i, j] = both.any()
            if i != j and shared[i, j]:
                p[i, j] = clusters_greater(pooled_gains[j][both], None if clusters is None else clusters[both])[0]
    order = sorted(range(size), key=lambda i: (np.isnan(means[i]), -sign * means[i], comparison.entries[i]))
    return Pairwise(means, p, shared, order)


def unit_means(
    comparison: Comparison, numbers: npt.NDArray[np.floating], where: Places | None = None
) -> npt.NDArray[np.float64]:
    """Return ``(k, units)`` of ``(k, total)``: each unit's mean over the conditions that have a number, or NaN."""
    starts, (sets, names, _) = comparison.starts(), where or places(comparison)
    total, count = np.zeros((len(numbers), len(names))), np.zeros((len(numbers), len(names)))
    for i, condition in enumerate(comparison.conditions):
        block = numbers[:, starts[i] : starts[i + 1]].astype(np.float64)
        known = ~np.isnan(block)
        total[:, sets[condition.units]] += np.where(known, block, 0)
        count[:, sets[condition.units]] += known
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
