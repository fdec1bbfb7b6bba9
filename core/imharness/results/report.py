"""What a track reports of its results: tables, rankings, charts, images, and the scores that are compared pairwise."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from imharness.results.charts import Chart
from imharness.results.comparisons import Comparison, Condition
from imharness.results.gallery import Example
from imharness.results.pairwise import pairwise_intervals
from imharness.results.rankings import Ranking
from imharness.results.tables import Table
from imharness.statistics.differences import Differences
from imharness.statistics.win_rates import ALPHA, WinRates, win_rates

Floats = npt.NDArray[np.floating]
LOST = 1e-4
"""What rounding to 32 bits may take from a number, as a share of the spread of entries around the mean of a unit."""


@dataclass(frozen=True)
class PairedScores:
    """Scores of entries on the same units, condition by condition, for pairwise tests.

    `values` has one array ``(entries, units)`` per condition, NaN where there is no finite number: of float32, or of
    float64 where rounding would take away what entries differ by, as of scores of 1e6 that differ by 0.01. `clusters`
    has, for each condition, the cluster of each unit; it is empty if units are independent. Clusters with the same name
    are the same in all conditions. `cluster_unit` says what a cluster is, such as "photograph". `pooled` are facets
    that the tests of who beats whom disregard: conditions that differ in nothing else are one condition, with the units
    of all. For `over`, `balanced`, `incomplete` and `limit` see `Comparison`.
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
        """The positions of the conditions that each test of who beats whom is on, together."""
        groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for c, facets in enumerate(self.conditions):
            groups.setdefault(tuple((k, v) for k, v in facets.items() if k not in self.pooled), []).append(c)
        return [tuple(group) for group in groups.values()]

    @property
    def most(self) -> int:
        """The largest number of clusters, or of units where there are no clusters, that one test sees."""
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
    """Say whether numbers ``(entries, units)``, rounded to float32, lose what entries differ by on a unit."""
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
    """What a track shows of its results.

    The first of the `tables` is the main table, with the best entry in its first row. `comparisons` are the scores by
    image, from which the core makes win rates and marks. `rankings` say who wins; the one of the main table comes
    first. Each of these may be empty.
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
    """Return the names of each group of conditions.

    Groups of the same objects share one object, because `win_rates` sorts the units of an object once.
    """
    of_objects: dict[tuple[int, ...], tuple[str, ...]] = {}
    joined = []
    for group in groups if names else ():
        key = tuple(id(names[c]) for c in group)
        if key not in of_objects:
            alone = len(group) == 1
            of_objects[key] = names[group[0]] if alone else tuple(itertools.chain(*(names[c] for c in group)))
        joined.append(of_objects[key])
    return joined
