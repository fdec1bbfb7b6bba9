"""Charts of tables and of lines. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Series(BaseModel, frozen=True, extra="forbid"):
    """A line of a chart."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


class Chart(BaseModel, frozen=True, extra="forbid"):
    """A picture of two columns of a table (scatter), of one column with intervals (dots), or of lines (curves)."""

    id: str
    title: str
    caption: str
    kind: Literal["scatter", "dots", "curves"]
    table: str = ""
    x: str = ""
    y: str = ""
    log: bool = False
    front: bool = False
    """Whether to join the points that no other beats in both columns; both must say which direction is better."""
    x_label: str = ""
    y_label: str = ""
    series: tuple[Series, ...] = ()
