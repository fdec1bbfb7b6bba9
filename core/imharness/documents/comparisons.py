"""Scores of several entries on the same units, for paired tests. Imports no torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field


class Condition(BaseModel, frozen=True, extra="forbid"):
    """A setting in which all entries were measured on the same units. `units` is a position among the unit sets."""

    facets: Mapping[str, str]
    units: int


class Comparison(BaseModel, frozen=True, extra="forbid"):
    """Scores of several entries on the same units (images, choices, rows), condition by condition.

    The store holds the numbers as float32, or float64 where that is too coarse, ``(entries, total)``, the conditions of
    an entry one after the other. `tests` is the number of comparisons that p-values are corrected for. `pairwise_alpha`
    and `value_range` make the intervals of all pairs simultaneous (see `imharness.statistics.differences`). All three
    are fixed when the leaderboard is made.
    """

    id: str
    title: str
    entry: str
    measure: str
    description: str
    better: Literal["higher", "lower"]
    decimals: int = 3
    unit: str = "image"
    cluster_unit: str = ""
    """What units come from, such as "photograph"; tests then count each of these once."""
    entries: tuple[str, ...]
    families: Mapping[str, str] = Field(default_factory=dict)
    conditions: tuple[Condition, ...]
    unit_sets: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[str, ...], ...] = ()
    """For each unit set, the cluster of each unit; empty if units are independent."""
    tests: int
    alpha: float
    table: str = ""
    column: str = ""
    """The column of `table` that ranks by these scores: it marks the best entry and those not shown to be worse."""
    over: tuple[str, ...] = ()
    """The facets over which the worst of each unit counts; over the other facets its mean counts."""
    balanced: str = ""
    """A facet whose values all weigh the same, however many units they have, or ""."""
    incomplete: tuple[str, ...] = ()
    """The entries that lack something, and therefore are compared with no other entry."""
    pairwise_alpha: float | None = None
    """The two-sided level of each interval at which the intervals of all pairs hold at once; None until it is known."""
    value_range: float = 0.0
    """The largest difference between two entries on one unit."""
    limit: float | None = None
    """The largest difference of two means that the measure allows, such as 100 for shares in %; intervals end there."""

    def starts(self) -> list[int]:
        """Return the position at which each condition begins, and the total number at the end."""
        sizes = [len(self.unit_sets[condition.units]) for condition in self.conditions]
        return list(itertools.accumulate(sizes, initial=0))
