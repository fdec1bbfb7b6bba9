"""Scores of several entries on the same units, for paired tests. Imports no torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field


class Condition(BaseModel, frozen=True, extra="forbid"):
    """One setting in which all entries were measured on the same units. `units`: position among the unit sets."""

    facets: Mapping[str, str]
    units: int


class Comparison(BaseModel, frozen=True, extra="forbid"):
    """Scores of several entries on the same units (images, choices, rows), condition by condition.

    The numbers lie in the store as float32 ``(entries, total)``, the conditions of an entry one after the other.
    `tests` is the number of comparisons that p-values are corrected for: the pool, frozen with the board. `tail` and
    `reach` make the intervals of all pairs simultaneous (`imharness.statistics.differences.Told`), frozen as well.
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
    """What units come from, such as "photograph"; tests then see each of these once."""
    entries: tuple[str, ...]
    families: Mapping[str, str] = Field(default_factory=dict)
    conditions: tuple[Condition, ...]
    unit_sets: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[str, ...], ...] = ()
    """For each unit set the cluster of each unit; empty where units are independent."""
    tests: int
    alpha: float
    table: str = ""
    column: str = ""
    """Where its ranking stands: the best of that column, and those not told from it, are marked."""
    over: tuple[str, ...] = ()
    """Facets over which the worst of each unit counts; over the others its mean does."""
    balanced: str = ""
    """A facet whose values weigh the same however many units they have."""
    incomplete: tuple[str, ...] = ()
    """Entries that lack something, and are told from none."""
    tail: float | None = None
    """The two-sided level of each interval at which those of all pairs cover at once; None before it is known."""
    reach: float = 0.0
    """The largest difference of two entries on one unit."""

    def starts(self) -> list[int]:
        """Return where each condition begins, and the total."""
        sizes = [len(self.unit_sets[condition.units]) for condition in self.conditions]
        return list(itertools.accumulate(sizes, initial=0))
