"""The pictures that a track declares: curves, bars, and scatter plots with their Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from imharness.results.identity import digest
from imharness.results.records import Board, Chart, Table
from imharness_leaderboard.addresses import picture_base
from imharness_leaderboard.picture import VERSION, WIDTH, Draw, Picture, Style
from imharness_leaderboard.tables import column_named, table_named
from imharness_leaderboard.wording import brief

HEIGHT = 4.6
DASHES = ("-", "--", ":", "-.")


class Point(NamedTuple):
    """A point of a scatter plot."""

    label: str
    x: float
    y: float


class Box(NamedTuple):
    """A rectangle of the drawing, px."""

    left: float
    low: float
    right: float
    high: float

    def overlaps(self, other: Box) -> bool:
        """Say whether the two share any area."""
        across = self.left < other.right and other.left < self.right
        return across and self.low < other.high and other.low < self.high


def chart_picture(board: Board, chart: Chart) -> Picture | None:
    """Return the picture of a declared chart, or None where there is nothing to draw."""
    table = table_named(board, chart.table)
    drawing = _drawing(chart, table)
    if drawing is None:
        return None
    draw, height = drawing
    source = digest([VERSION, chart.model_dump(mode="json"), table.model_dump(mode="json") if table else None])
    return Picture(picture_base(board, chart.id), chart.title, chart.caption, source, draw, (WIDTH, height))


def _drawing(chart: Chart, table: Table | None) -> tuple[Draw, float] | None:
    """Return how a chart is drawn, and its height in inches."""
    if chart.kind == "curves" and chart.series:
        return lambda axes, style: _draw_curves(axes, style, chart), HEIGHT
    if chart.kind == "scatter" and (points := _points(table, chart)):
        return lambda axes, style: _draw_scatter(axes, style, chart, table, points), HEIGHT
    if chart.kind == "bars" and table is not None and column_named(table, chart.x) is not None:
        return lambda axes, style: _draw_bars(axes, style, table, chart.x), 1.0 + 0.3 * len(table.rows)
    return None


def _draw_curves(axes: Axes, style: Style, chart: Chart) -> None:
    for i, line in enumerate(chart.series):
        round, colour = divmod(i, len(style.colours))
        dash = DASHES[round % len(DASHES)]
        x, y = np.array(line.x), np.array(line.y)
        axes.plot(x, y, dash, color=style.colours[colour], linewidth=1.4, label=brief(line.label))
    if chart.log:
        smallest = min((v for line in chart.series for v in (*line.x, *line.y) if v > 0), default=1e-3)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(smallest, 1)
        axes.set_ylim(smallest, 1.05)
        axes.plot([smallest, 1], [smallest, 1], color=style.dim, linewidth=0.8)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, labelcolor=style.ink, fontsize=8)


def _draw_bars(axes: Axes, style: Style, table: Table, key: str) -> None:
    rows = [(row.label, row.values[key]) for row in table.rows if key in row.values]
    rows = [(label, value) for label, value in rows if value.value is not None]
    places = np.arange(len(rows))[::-1]
    middle = np.array([v.value for _, v in rows], dtype=float)
    low = np.array([v.value if v.low is None else v.low for _, v in rows], dtype=float)
    high = np.array([v.value if v.high is None else v.high for _, v in rows], dtype=float)
    axes.barh(places, middle, color=style.colours[0], height=0.6)
    errors = np.maximum(np.stack([middle - low, high - middle]), 0)
    axes.errorbar(middle, places, xerr=errors, fmt="none", ecolor=style.ink, elinewidth=1, capsize=3)
    axes.set_yticks(places, [brief(label) for label, _ in rows])
    axes.grid(visible=False, axis="y")
    column = column_named(table, key)
    axes.set_xlabel(column.label if column else key)


def _points(table: Table | None, chart: Chart) -> list[Point]:
    if chart.series:
        return [Point(line.label, line.x[0], line.y[0]) for line in chart.series if line.x]
    found = []
    for row in table.rows if table is not None else ():
        x, y = row.values.get(chart.x), row.values.get(chart.y)
        if x is not None and y is not None and x.value is not None and y.value is not None:
            found.append(Point(row.label, x.value, y.value))
    return found


def _draw_scatter(axes: Axes, style: Style, chart: Chart, table: Table | None, points: Sequence[Point]) -> None:
    x, y = np.array([p.x for p in points]), np.array([p.y for p in points])
    columns = [column_named(table, key) if table else None for key in (chart.x, chart.y)]
    signs = [{"higher": 1, "lower": -1}.get(c.better, 0) if c else 0 for c in columns]
    front = pareto_front(signs[0] * x, signs[1] * y) if chart.front and all(signs) else np.zeros(len(x), dtype=bool)
    if front.any():
        order = np.argsort(x[front])
        axes.plot(x[front][order], y[front][order], color=style.colours[1], linewidth=1.2, zorder=2)
    axes.scatter(x[~front], y[~front], s=26, color=style.colours[0], zorder=3)
    axes.scatter(x[front], y[front], s=34, color=style.colours[1], marker="D", zorder=3)
    if chart.log:
        axes.set_xscale("log")
    for axis, column, text in zip((axes.xaxis, axes.yaxis), columns, (chart.x_label, chart.y_label), strict=True):
        direction = f" ({column.better} is better)" if column and column.better in ("higher", "lower") else ""
        axis.set_label_text((column.label if column else text) + direction)
    _label_points(axes, style, points, front)


def pareto_front(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which points are on the Pareto front, ``(points,)``; higher is better in both coordinates.

    A point is on it when no other point is at least as good in both coordinates and better in one.
    """
    no_worse = (x[:, None] >= x) & (y[:, None] >= y)
    better = (x[:, None] > x) | (y[:, None] > y)
    return np.asarray(~(no_worse & better).any(axis=0))


def _label_points(axes: Axes, style: Style, points: Sequence[Point], front: npt.NDArray[np.bool_]) -> None:
    """Write labels where there is room, those of the front first."""
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    places = [axes.transData.transform((p.x, p.y)) for p in points]
    taken = [Box(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    extent = axes.get_window_extent()
    frame = Box(extent.x0, extent.y0, extent.x1, extent.y1 + 10)
    for i in sorted(range(len(points)), key=lambda i: (not front[i], i)):
        label = brief(points[i].label)
        x, y = places[i]
        free = _free_place(x, y, 6.2 * len(label), frame, taken)
        if free is None:
            continue
        (dx, dy), box = free
        taken.append(box)
        text = axes.annotate(
            label, (points[i].x, points[i].y), (dx * 0.72, dy * 0.72), textcoords="offset points",
            fontsize=8, color=style.ink if front[i] else style.dim, annotation_clip=False,
        )  # fmt: skip
        text.set_in_layout(False)


def _free_place(
    x: float, y: float, width: float, frame: Box, taken: Sequence[Box]
) -> tuple[tuple[float, float], Box] | None:
    """Return an offset for the label of a point, right, left, above or below it, and the box the label fills there."""
    for dx, dy in ((7.0, -5.0), (-width - 7.0, -5.0), (-width / 2, 8.0), (-width / 2, -19.0)):
        box = Box(x + dx, y + dy, x + dx + width, y + dy + 12.0)
        fits = box.left >= frame.left and box.right <= frame.right and box.low >= frame.low and box.high <= frame.high
        if fits and not any(box.overlaps(other) for other in taken):
            return (dx, dy), box
    return None
