"""Draws pictures of tables as SVG, by matplotlib and without a display."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imharness.errors import UsageError, unknown_name
from imharness.notebook.writing import heading
from imharness.reading.text import NO_MARKUP
from imharness.results.tables import Table, Value

WIDTH, ROW = 7.0, 0.32
"""The width of a picture and the height of a row in it, in inches."""


@dataclass(frozen=True)
class Picture:
    """A picture that notebooks show; `svg` is its text."""

    svg: str

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, whose name should end in ``.svg``."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({len(self.svg):,} characters of SVG; .save(path) writes it)"


def dots(table: Table, key: str | None = None) -> Picture:
    """Return a picture of one column: a dot and an interval for each entry, in the order of the table.

    Equal tables give equal text.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    wanted = key or table.ranked_by or (table.columns[0].key if table.columns else "")
    column = next((own for own in table.columns if own.key == wanted), None)
    if column is None:
        known = [own.key for own in table.columns]
        raise UsageError(unknown_name(f"column: no column is called {wanted!r}", wanted, known))
    rows = [(row.title or row.label, row.values.get(wanted, Value())) for row in table.rows]
    shown = [(label, value) for label, value in rows if value.value is not None]
    if not shown:
        raise UsageError(f"column: {wanted!r} has no number in table {table.id}.")
    middle = np.array([value.value for _, value in shown], dtype=np.float64)
    low = np.array([value.value if value.low is None else value.low for _, value in shown], dtype=np.float64)
    high = np.array([value.value if value.high is None else value.high for _, value in shown], dtype=np.float64)
    with matplotlib.rc_context({"svg.hashsalt": "imharness", "svg.fonttype": "none", **NO_MARKUP}):
        figure = Figure(figsize=(WIDTH, 1.2 + ROW * len(shown)), layout="constrained")
        axes, places = figure.add_subplot(), np.arange(len(shown))[::-1]
        axes.hlines(places, low, high, color="#7a8794", linewidth=2)
        axes.plot(middle, places, "o", color="#1f5f99")
        axes.set_yticks(places, [label for label, _ in shown])
        axes.set_xlabel(heading(column))
        axes.set_title(table.title)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        out = io.StringIO()
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return Picture(out.getvalue())
