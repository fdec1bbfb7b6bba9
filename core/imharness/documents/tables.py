"""Tables of the leaderboard: numbers with their uncertainty, columns and rows. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator


class Value(BaseModel, frozen=True, extra="forbid"):
    """One number of a table with its uncertainty, or the reason why there is none."""

    value: float | None = None
    n: int | None = None
    clusters: int | None = None
    """How many independent sources the n units come from; None if the units themselves are independent."""
    low: float | None = None
    high: float | None = None
    missing: str = ""

    def number_or(self, other: float) -> float:
        """Return the number, or `other` if there is none or it is NaN."""
        return other if self.value is None or math.isnan(self.value) else self.value


P = "p"
"""The key of a column of p-values."""


class ColumnSpec(BaseModel, frozen=True, extra="forbid"):
    """A column of numbers: what it is, which direction is better, how many decimals to show."""

    key: str
    label: str
    description: str
    better: Literal["higher", "lower", ""] = ""
    decimals: int = 3
    unit: str = ""
    """What n counts, such as "image"; `cluster_unit` is what the units come from, such as "photograph"."""
    cluster_unit: str = ""
    limits: tuple[float, float] | None = None
    """What the numbers cannot leave, such as 0 and 100 for shares in %; intervals end there."""

    def within(self, value: Value) -> Value:
        """Return a number whose interval ends where the column's limits are."""
        if self.limits is None or value.low is None or value.high is None:
            return value
        low, high = self.limits
        if low <= value.low and value.high <= high:
            return value
        return value.model_copy(update={"low": max(low, value.low), "high": min(high, value.high)})

    def text(self, number: float) -> str:
        """Return a number with the decimals of the column: a zero has no sign, and no p above 0 is shown as 0."""
        text = f"{number:z.{self.decimals}f}"
        return f"<{10**-self.decimals:.{self.decimals}f}" if self.key == P and number > 0 == float(text) else text

    def count(self, value: Value | None) -> str:
        """Return the n of a number in words, as in "36 images of 4 photographs", or "" if it has none."""
        if value is None or value.n is None:
            return ""
        text = several(value.n, self.unit) if self.unit else f"n {value.n}"
        if value.clusters is None or (self.unit and self.cluster_unit == self.unit):
            return text
        return f"{text} of {several(value.clusters, self.cluster_unit or 'source')}"


def several(number: int, what: str) -> str:
    """Return a number of things in words, as in "1 image" and "4 images"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def too_few(number: int, what: str) -> str:
    """Return that so many things are too few, in words."""
    return f"{several(number, what)} {'is' if number == 1 else 'are'} too few"


def joined(words: Iterable[str]) -> str:
    """Return words as a list within a sentence: ``a, b and c``."""
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


class Row(BaseModel, frozen=True, extra="forbid"):
    """A row: an entry with its numbers by column key."""

    label: str
    title: str = ""
    values: Mapping[str, Value]
    facets: Mapping[str, str] = Field(default_factory=dict)
    """What readers can filter by, such as "dataset" -> its label."""

    def number(self, key: str) -> float | None:
        """Return the number in a column, or None if the row has none there or it is NaN."""
        value = self.values.get(key, Value())
        return None if value.value is None or math.isnan(value.value) else value.value


class Table(BaseModel, frozen=True, extra="forbid"):
    """A table of the leaderboard. If `shading` is set, values in [0, `shading`] are shown as a heat map."""

    id: str
    title: str
    caption: str
    entry: str
    """What a row is, such as "defense" or "metric"."""
    columns: tuple[ColumnSpec, ...]
    rows: tuple[Row, ...]
    ranked_by: str = ""
    note: str = ""
    shading: float | None = None
    not_worse: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Column key -> labels of the rows that the best one, of those that may win, is not shown to be better than."""

    @field_validator("rows")
    @classmethod
    def _within_limits(cls, rows: tuple[Row, ...], info: ValidationInfo) -> tuple[Row, ...]:
        limited = {column.key: column for column in info.data.get("columns", ()) if column.limits is not None}
        if not limited:
            return rows
        return tuple(
            row.model_copy(
                update={"values": {k: limited[k].within(v) if k in limited else v for k, v in row.values.items()}}
            )
            for row in rows
        )
