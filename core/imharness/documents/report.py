"""What a track reports of its results: tables, rankings, charts, images, and the scores that are compared pairwise."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from imharness.documents.charts import Chart
from imharness.documents.comparisons import Comparison, Condition
from imharness.documents.gallery import Example
from imharness.documents.pairwise import pairwise_intervals
from imharness.documents.rankings import Ranking
from imharness.documents.tables import Table
from imharness.statistics.differences import Differences
from imharness.statistics.win_rates import ALPHA, WinRates, win_rates

Floats = npt.NDArray[np.floating]
LOST = 1e-4
"""By how much rounding to 32 bits may change a number, as a share of the spread of the entries on a unit."""


@dataclass(frozen=True)
class PairedScores:
    """Scores of entries on the same units, condition by condition, for pairwise tests.

    Attributes:
        entries, conditions, units: the labels of the entries, and for each condition its facets and its units.
        values: one array ``(entries, units)`` for each condition, NaN where there is no finite number. Numbers are
            float32, or float64 if rounding would hide differences of entries, as of scores of 1e6 that differ by 0.01.
        clusters: for each condition the cluster of each unit; empty if units are independent. Clusters with the same
            name are the same in all conditions.
        unit, cluster_unit: what units and clusters are called, such as "image" and "photograph".
        families: entry -> its family, by which readers can group entries.
        pooled: facets that the tests of who beats whom disregard. Conditions that differ only in these are tested as
            one condition, with the units of all.
        rates: how often each entry beats each other one; computed when the object is made.
        over, balanced, incomplete, limit, table, column: see `Comparison`.
    """

    id: str
    title: str
    about: str
    """What winning means, such as "lower D"."""
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
    pooled: tuple[str, ...] = ()
    limit: float | None = None
    rates: WinRates = field(init=False, compare=False)
    numbers: Floats = field(init=False, compare=False)
    """All `values` in one array ``(entries, total)``, the conditions one after the other; `values` are its parts."""

    def __post_init__(self) -> None:
        ends = list(itertools.accumulate(map(len, self.units), initial=0))
        kind = np.float64 if any(map(_rounding_hides, self.values)) else np.float32
        numbers: Floats = np.empty((len(self.entries), ends[-1]), kind)
        views = tuple(numbers[:, start:end] for start, end in itertools.pairwise(ends))
        for view, block in zip(views, self.values, strict=True):
            view[:] = np.where(np.isfinite(block), block, np.nan)
        pooled = [
            views[group[0]] if len(group) == 1 else np.concatenate([views[c] for c in group], axis=1)
            for group in self.tested
        ]
        clusters = _joined(self.clusters, self.tested)
        rates = win_rates(pooled, higher_wins=self.better == "higher", clusters=clusters)
        for name, value in (("numbers", numbers), ("values", views), ("rates", rates)):
            object.__setattr__(self, name, value)

    @property
    def tested(self) -> list[tuple[int, ...]]:
        """For each test of who beats whom the positions of its conditions, which differ only in `pooled` facets."""
        groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for c, facets in enumerate(self.conditions):
            groups.setdefault(tuple((k, v) for k, v in facets.items() if k not in self.pooled), []).append(c)
        return [tuple(group) for group in groups.values()]

    @property
    def most(self) -> int:
        """The largest number of clusters (or of units, if these are independent) in one test."""
        return max((len(set(units)) for units in _joined(self.clusters or self.units, self.tested)), default=0)

    def stored(self) -> tuple[Comparison, Floats]:
        """Return the comparison as data, and its numbers ``(entries, total)``."""
        facts = {"pairwise_alpha": self.differences.alpha, "value_range": self.differences.value_range}
        return self._described.model_copy(update=facts), self.numbers

    @cached_property
    def differences(self) -> Differences:
        """The differences of all pairs of entries, in the order of `entries`."""
        return pairwise_intervals(self._described, self.numbers)

    @cached_property
    def _described(self) -> Comparison:
        named = list(zip(self.units, self.clusters or [()] * len(self.units), strict=True))
        sets = {units: index for index, units in enumerate(dict.fromkeys(named))}
        return Comparison(
            id=self.id,
            title=self.title,
            entry=self.entry,
            measure=self.measure,
            description=self.description,
            better=self.better,
            decimals=self.decimals,
            unit=self.unit,
            cluster_unit=self.cluster_unit,
            entries=self.entries,
            tests=self.rates.comparisons,
            alpha=ALPHA,
            table=self.table,
            column=self.column,
            families={label: self.families[label] for label in self.entries if label in self.families},
            conditions=tuple(
                Condition(facets=facets, units=sets[units])
                for facets, units in zip(self.conditions, named, strict=True)
            ),
            unit_sets=tuple(units for units, _ in sets),
            clusters=tuple(clusters for _, clusters in sets) if self.clusters else (),
            over=self.over,
            balanced=self.balanced,
            incomplete=self.incomplete,
            limit=self.limit,
        )


def _rounding_hides(values: npt.NDArray[np.floating]) -> bool:
    """Return whether rounding to float32 would hide differences of entries in numbers ``(entries, units)``.

    That is so if it changes a number by more than `LOST` of the spread of the entries around the mean of each unit.
    """
    if values.dtype.itemsize <= 4:
        return False
    numbers = np.where(np.isfinite(values), values, np.nan)
    finite = ~np.isnan(numbers)
    mean = np.where(finite, numbers, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    spread = np.sqrt(np.nanmean((numbers - mean) ** 2)) if finite.any() else 0.0
    with np.errstate(over="ignore"):
        lost = np.abs(numbers - numbers.astype(np.float32))
    return bool(spread > 0 and np.nanmax(lost) > LOST * spread)


@dataclass(frozen=True)
class TrackReport:
    """What a track reports of its results; each field may be empty.

    The first of the `tables` is the main table, with the best entry in its first row. `comparisons` are scores unit by
    unit, from which the core computes win rates and marks the best entries. `rankings` say who wins; that of the main
    table comes first. `examples` are images for the gallery.
    """

    tables: Sequence[Table] = ()
    comparisons: Sequence[PairedScores] = ()
    charts: Sequence[Chart] = ()
    examples: Sequence[Example] = ()
    rankings: Sequence[Ranking] = ()

    def __add__(self, other: TrackReport) -> TrackReport:
        """Return both reports as one, with this one's parts first."""
        return TrackReport(
            (*self.tables, *other.tables),
            (*self.comparisons, *other.comparisons),
            (*self.charts, *other.charts),
            (*self.examples, *other.examples),
            (*self.rankings, *other.rankings),
        )


def _joined(names: Sequence[tuple[str, ...]], groups: Sequence[tuple[int, ...]]) -> list[tuple[str, ...]]:
    """Return for each group of conditions the names of all its conditions, one after the other.

    If two groups consist of the same tuples, they share one tuple here: `win_rates` sorts the units of a tuple once.
    """
    joined_tuples: dict[tuple[int, ...], tuple[str, ...]] = {}
    joined = []
    for group in groups if names else ():
        key = tuple(id(names[c]) for c in group)
        if key not in joined_tuples:
            is_single = len(group) == 1
            joined_tuples[key] = names[group[0]] if is_single else tuple(itertools.chain(*(names[c] for c in group)))
        joined.append(joined_tuples[key])
    return joined
