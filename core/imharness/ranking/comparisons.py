"""Long rows of per-unit scores -> what is compared pairwise: win rates, and who is told to be better than whom.

Whatever says that one entry is better than another one asks `told_of`, with the comparison and its numbers alone: a
place's interval, a mark, a claim, the site's Compare page and `imharness.compare`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.ranking.tables import win_table
from imharness.results.records import Comparison, Condition, Table
from imharness_statistics.differences import Differences, differences
from imharness_statistics.win_rates import ALPHA, WinRates, win_rates

Floats = npt.NDArray[np.float32]
Places = tuple[list[npt.NDArray[np.int64]], list[str], npt.NDArray[np.str_] | None]


@dataclass(frozen=True)
class PairedScores:
    """Scores of entries on the same units, condition by condition; what a track hands over for pairwise tests.

    `values`: one float32 array ``(entries, units)`` per condition, NaN where there is no finite number.
    `clusters`: for each condition the cluster of each unit, empty where units are independent; clusters of one name are
    one, whatever the condition. `cluster_unit`: what a cluster is ("photograph"). `over`: facets over which the worst
    of each unit counts; of the others its mean. `balanced`: a facet whose values weigh the same. `incomplete`: entries
    that are told from none, as they lack something.
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
    over: tuple[str, ...] = ()
    balanced: str = ""
    incomplete: tuple[str, ...] = ()
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
        facts = {"tail": self.told.tail, "reach": self.told.reach}
        return self._described.model_copy(update=facts), self.numbers

    @cached_property
    def told(self) -> Differences:
        """All entries against each other, in the order of `entries`."""
        return told_of(self._described, self.numbers)

    @cached_property
    def _described(self) -> Comparison:
        named = list(zip(self.units, self.clusters or [()] * len(self.units), strict=True))
        sets = {own: place for place, own in enumerate(dict.fromkeys(named))}
        return Comparison(
            id=self.id, title=self.title, entry=self.entry, measure=self.measure, description=self.description,
            better=self.better, decimals=self.decimals, unit=self.unit, cluster_unit=self.cluster_unit,
            entries=self.entries, tests=self.rates.comparisons, alpha=ALPHA, table=self.table, column=self.column,
            families={label: self.families[label] for label in self.entries if label in self.families},
            conditions=tuple(
                Condition(facets=facets, units=sets[own]) for facets, own in zip(self.conditions, named, strict=True)
            ),
            unit_sets=tuple(units for units, _ in sets),
            clusters=tuple(clusters for _, clusters in sets) if self.clusters else (),
            over=self.over, balanced=self.balanced, incomplete=self.incomplete,
        )  # fmt: skip


def places(comparison: Comparison) -> Places:
    """Return the places of each unit set's units among all units by name, these names, and their clusters if any."""
    names = sorted({unit for units in comparison.unit_sets for unit in units})
    place = {name: i for i, name in enumerate(names)}
    sets = [np.array([place[name] for name in units], dtype=np.int64) for units in comparison.unit_sets]
    known = dict(zip(*map(itertools.chain.from_iterable, (comparison.unit_sets, comparison.clusters)), strict=False))
    return sets, names, np.array([known[name] for name in names]) if comparison.clusters else None


def not_worse(comparison: Comparison, numbers: Floats, best: str) -> tuple[str, ...]:
    """Return the entries that the best one is not told to be better than, of those that share a unit with it."""
    told, i = told_of(comparison, numbers), comparison.entries.index(best)
    kept = ~np.isnan(told.value[i]) & ~told.better[i]
    return tuple(label for j, label in enumerate(comparison.entries) if kept[j])


class Group(NamedTuple):
    """Conditions that differ in the facets `Comparison.over` alone: the places of their units ``(u,)``, and of each
    unit the worst gain under any of them ``(entries, u)``, more is better, NaN where there is none."""

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
    """Return all entries of a comparison against each other, in their order, with its numbers ``(entries, total)``.

    Each unit counts once: the worst over the facets ``over``, and of that the mean over the others that both entries
    have. Where the tail of the intervals is known, as in a stored comparison, nothing is resampled.
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
        own, where[2], weights_of(comparison, where), known=known,
        against=None if alike else lambda i: unit_gains([g._replace(gains=g.gains[i] - g.gains) for g in groups], n),
    )  # fmt: skip


def unit_gains(groups: Sequence[Group], n: int) -> npt.NDArray[np.float64]:
    """Return the mean of each unit over the groups that have it ``(entries, n)``, NaN where none has."""
    size = len(groups[0].gains) if groups else 0
    total, count = np.zeros((2, size, n))
    for at, gains in groups:
        total[:, at] += np.nan_to_num(gains)
        count[:, at] += ~np.isnan(gains)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def weights_of(comparison: Comparison, where: Places) -> npt.NDArray[np.float64] | None:
    """Return how much each unit counts, so that the values of the facet `balanced` weigh the same; None without it."""
    if not comparison.balanced:
        return None
    own = np.empty(len(where[1]), dtype=object)
    for condition in comparison.conditions:
        own[where[0][condition.units]] = condition.facets[comparison.balanced]
    _, place, sizes = np.unique(own.astype(str), return_inverse=True, return_counts=True)
    return np.asarray(len(own) / len(sizes) / sizes[place])


def unit_means(
    comparison: Comparison, numbers: npt.NDArray[np.floating], where: Places | None = None
) -> npt.NDArray[np.float64]:
    """Return ``(k, units)`` of ``(k, total)``: each unit's mean over the conditions that have a number, or NaN."""
    starts, (sets, names, _) = comparison.starts(), where or places(comparison)
    total, count = np.zeros((2, len(numbers), len(names)))
    for (start, end), condition in zip(itertools.pairwise(starts), comparison.conditions, strict=True):
        block, at = numbers[:, start:end].astype(np.float64), sets[condition.units]
        known = ~np.isnan(block)
        total[:, at] += np.where(known, block, 0)
        count[:, at] += known
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
