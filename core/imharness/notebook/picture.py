"""Draws pictures of tables by matplotlib, without a display."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from imharness.documents.tables import Table, Value
from imharness.errors import UsageError, unknown_name
from imharness.notebook.writing import heading, measured
from imharness.reading.text import NO_MARKUP

WIDTH, ROW = 7.0, 0.32
"""The width of a picture and the height of a row in it, in inches."""

DPI = 200
FORMATS: Mapping[str, Mapping[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
"""The end of a file's name -> what is written into it as metadata."""


@dataclass(frozen=True)
class Picture:
    """A picture that notebooks show: a figure of matplotlib, and `svg`, its text."""

    figure: Figure

    @cached_property
    def svg(self) -> str:
        """The picture as SVG; equal tables give equal text."""
        out = io.BytesIO()
        self._write(out, "svg")
        return out.getvalue().decode("utf-8")

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, as SVG, PDF or PNG by the end of its name; raises `UsageError` for another."""
        form = Path(path).suffix.lower().removeprefix(".")
        if form not in FORMATS:
            ends = ", ".join(f".{ending}" for ending in FORMATS)
            raise UsageError(f"path: {Path(path).name!r} does not end in one of {ends}.")
        with Path(path).open("wb") as out:
            self._write(out, form)

    def _write(self, out: IO[bytes], form: str) -> None:
        with matplotlib.rc_context({"svg.hashsalt": "imharness", "svg.fonttype": "none", **NO_MARKUP}):
            self.figure.savefig(out, format=form, dpi=DPI, metadata=FORMATS[form])

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({len(self.svg):,} characters of SVG; .save('NAME.svg'), '.pdf' or '.png' writes it)"


def dots(table: Table, key: str | None = None) -> Picture:
    """Return a picture of one column: a dot and an interval for each entry, in the order of the table.

    By default this is the column that ranks the table, or the measure behind it if that column holds ranks.
    """
    wanted = key or measured(table)
    column = next((column for column in table.columns if column.key == wanted), None)
    if column is None:
        keys = [column.key for column in table.columns]
        raise UsageError(unknown_name(f"column: no column is called {wanted!r}", wanted, keys))
    rows = [(row.title or row.label, row.values.get(wanted, Value())) for row in table.rows]
    present = [(label, value) for label, value in rows if value.value is not None]
    if not present:
        raise UsageError(f"column: {wanted!r} has no number in table {table.id}.")
    middle = np.array([value.value for _, value in present], dtype=np.float64)
    low = np.array([value.value if value.low is None else value.low for _, value in present], dtype=np.float64)
    high = np.array([value.value if value.high is None else value.high for _, value in present], dtype=np.float64)
    with matplotlib.rc_context(NO_MARKUP):
        figure = Figure(figsize=(WIDTH, 1.2 + ROW * len(present)), layout="constrained")
        axes, places = figure.add_subplot(), np.arange(len(present))[::-1]
        axes.hlines(places, low, high, color="#7a8794", linewidth=2)
        axes.plot(middle, places, "o", color="#1f5f99")
        axes.set_yticks(places, [label for label, _ in present])
        axes.set_xlabel(heading(column))
        axes.set_title(table.title)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        if not column.decimals:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return Picture(figure)
