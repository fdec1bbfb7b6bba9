"""The pictures that a track declares: curves, dots with intervals, and scatter plots with their Pareto front.

Titles say what is seen in the numbers; where that cannot be said, a picture has the title that its track gave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis

from imharness.documents.charts import Chart, Series
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness.documents.tables import ColumnSpec, Row, Table, Value, joined
from imharness.results.identity import digest
from imharness.statistics.correlation import kendall_rows
from imharness_leaderboard.addresses import picture_base
from imharness_leaderboard.names import display_names, head_of
from imharness_leaderboard.picture import VERSION, WIDTH, Columns, Draw, Picture, Style, rows_high, write_labels
from imharness_leaderboard.tables import column_named, shown, table_named
from imharness_leaderboard.wording import on_axis

HEIGHT = 4.6
"""The height of curves and scatter plots, inches; that of dots follows from the number of rows."""
DASHES = ("-", "--", ":", "-.")


class Point(NamedTuple):
    """A point of a scatter plot."""

    label: str
    x: float
    y: float


def chart_pictures(leaderboard: Leaderboard, chart: Chart) -> Iterator[Picture]:
    """Yield the picture of a declared chart; none where there is nothing to draw.

    Its title says what is seen, and its caption begins with the title that the track gave it.
    """
    table = table_named(leaderboard, chart.table)
    drawing = _drawing(chart, table)
    if drawing is None:
        return
    draw, height, data, seen = drawing
    source = digest([VERSION, seen, chart.model_dump(mode="json"), table.model_dump(mode="json") if table else None])
    title, caption = (seen, f"{chart.title}. {chart.caption}") if seen else (chart.title, chart.caption)
    yield Picture(picture_base(leaderboard, chart.id), title, caption, source, draw, (WIDTH, height), data)


class Drawing(NamedTuple):
    """How a chart is drawn, its height in inches, its numbers, and what is seen, "" if that cannot be said."""

    draw: Draw
    height: float
    data: Columns
    seen: str


def _drawing(chart: Chart, table: Table | None) -> Drawing | None:
    """Return the drawing of a chart; None where there is nothing to draw."""
    if chart.kind == "curves" and chart.series:
        seen = title_of_curves(chart.series, chart.y_label)
        return Drawing(lambda axes, style: _draw_curves(axes, style, chart), HEIGHT, _curve_data(chart), seen)
    if chart.kind == "scatter" and (points := _points(table, chart)):
        front = _front(chart, table, points)
        data = {
            "label": [p.label for p in points],
            "x": [p.x for p in points],
            "y": [p.y for p in points],
            "front": front.astype(int).tolist(),
        }
        seen = _seen_in_points(chart, table, points, front)
        return Drawing(lambda axes, style: _draw_scatter(axes, style, chart, table, points, front), HEIGHT, data, seen)
    if chart.kind == "dots" and table is not None and (column := column_named(table, chart.x)) is not None:
        rows = [row for row in table.rows if _known(row.values.get(chart.x))]
        values = [row.values[chart.x] for row in rows]
        data = {
            table.entry: [row.label for row in rows],
            column.label: [value.value for value in values],
            "low": [value.low for value in values],
            "high": [value.high for value in values],
        }
        seen = title_of_dots(rows, column)
        return Drawing(lambda axes, style: _draw_dots(axes, style, rows, column), rows_high(len(rows)), data, seen)
    return None


def _known(value: Value | None) -> bool:
    return value is not None and value.value is not None


def axis_label(column: ColumnSpec | None, text: str = "") -> str:
    """Return the label of an axis: the column's label, and whether higher or lower is better."""
    if column is None:
        return text
    return head_of(column.label) + (f" ({column.better} is better)" if column.better else "")


def _curve_data(chart: Chart) -> Columns:
    points = [(line.label, x, y) for line in chart.series for x, y in zip(line.x, line.y, strict=True)]
    names = ("series", chart.x_label or "x", chart.y_label or "y")
    return {name: [point[i] for point in points] for i, name in enumerate(names)}


def _draw_curves(axes: Axes, style: Style, chart: Chart) -> None:
    for i, line in enumerate(chart.series):
        cycle, colour = divmod(i, len(style.colours))
        dash = DASHES[cycle % len(DASHES)]
        x, y = np.array(line.x), np.array(line.y)
        visible = (x > 0) & (y > 0) if chart.log else np.ones(len(x), dtype=bool)
        axes.plot(x[visible], y[visible], dash, color=style.colours[colour], linewidth=1.4, label=brief(line.label))
    if chart.log:
        smallest = min((v for line in chart.series for v in (*line.x, *line.y) if v > 0), default=1e-3)
        _logarithmic(axes, "xy")
        if max((v for line in chart.series for v in (*line.x, *line.y)), default=0.0) <= 1:
            axes.set_xlim(smallest, 1)
            axes.set_ylim(smallest, 1.05)
            axes.plot([smallest, 1], [smallest, 1], color=style.dim, linewidth=0.8)  # rates: chance is here
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, labelcolor=style.ink, fontsize=8)


def _logarithmic(axes: Axes, which: str) -> None:
    """Make axes logarithmic; their numbers are plain ones, because matplotlib writes powers in markup."""
    for name in which:
        axes.set(**{f"{name}scale": "log"})
        axis: Axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")


def _draw_dots(axes: Axes, style: Style, rows: Sequence[Row], column: ColumnSpec) -> None:
    draw_intervals(axes, style, [row.values[column.key] for row in rows])
    axes.set_yticks(np.arange(len(rows))[::-1], [on_axis(row.label) for row in rows])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(axis_label(column), loc="right")


def draw_intervals(axes: Axes, style: Style, values: Sequence[Value]) -> None:
    """Draw numbers as dots with their intervals, the first one on top; the axis spans what is drawn."""
    for level, value in zip(np.arange(len(values))[::-1], values, strict=True):
        if value.low is not None and value.high is not None:
            axes.plot([value.low, value.high], [level, level], color=style.colours[0], linewidth=1.6, alpha=0.75)
        if value.value is not None:
            axes.plot(value.value, level, "o", color=style.colours[0], markersize=5.5, zorder=3)
    axes.set_ylim(-0.7, len(values) - 0.3)


def _points(table: Table | None, chart: Chart) -> list[Point]:
    if chart.series:
        return [Point(line.label, line.x[0], line.y[0]) for line in chart.series if line.x]
    points = []
    for row in table.rows if table is not None else ():
        x, y = row.values.get(chart.x), row.values.get(chart.y)
        if x is not None and y is not None and x.value is not None and y.value is not None:
            points.append(Point(row.label, x.value, y.value))
    return points


def _columns(table: Table | None, chart: Chart) -> list[ColumnSpec | None]:
    return [column_named(table, key) if table else None for key in (chart.x, chart.y)]


def _incomplete(table: Table | None) -> set[str]:
    """Return the entries of a ranking that are incomplete, and so never on a front; none for other tables."""
    if table is None or table.ranked_by != "rank":
        return set()
    return {row.label for row in table.rows if row.number("coverage") != 100}


def _seen_in_points(chart: Chart, table: Table | None, points: Sequence[Point], front: npt.NDArray[np.bool_]) -> str:
    """Return as a title who is on the front, or, without a front, whether the two numbers go together."""
    labels = [point.label for point in points]
    if front.any():
        return title_of_front(labels, front, all_complete=_incomplete(table).isdisjoint(labels))
    columns = zip(_columns(table, chart), (chart.x_label, chart.y_label), strict=True)
    x, y = (column.label if column else text for column, text in columns)
    return title_of_pairs([p.x for p in points], [p.y for p in points], (x, y), table.entry if table else "entry")


def _front(chart: Chart, table: Table | None, points: Sequence[Point]) -> npt.NDArray[np.bool_]:
    """Return which points are on the front; none where the chart asks for none, or better has no direction."""
    signs = [{"higher": 1, "lower": -1}.get(c.better, 0) if c else 0 for c in _columns(table, chart)]
    incomplete = _incomplete(table)
    complete = np.array([point.label not in incomplete for point in points], dtype=bool)
    if not chart.front or not all(signs):
        return np.zeros(len(points), dtype=bool)
    x, y = signs[0] * np.array([p.x for p in points]), signs[1] * np.array([p.y for p in points])
    on_front = np.zeros(len(points), dtype=bool)
    on_front[complete] = pareto_front(x[complete], y[complete])
    return on_front


def _draw_scatter(
    axes: Axes,
    style: Style,
    chart: Chart,
    table: Table | None,
    points: Sequence[Point],
    front: npt.NDArray[np.bool_],
) -> None:
    x, y = np.array([p.x for p in points]), np.array([p.y for p in points])
    line = sorted(zip(x[front].tolist(), y[front].tolist(), strict=True))
    if line:
        axes.plot(*zip(*line, strict=True), color=style.colours[1], linewidth=1.2, zorder=2)
    axes.scatter(x[~front], y[~front], s=26, color=style.colours[0], zorder=3)
    axes.scatter(x[front], y[front], s=34, color=style.colours[1], marker="D", zorder=3)
    if chart.log:
        _logarithmic(axes, "x")
    for axis, column, text in zip(
        (axes.xaxis, axes.yaxis), _columns(table, chart), (chart.x_label, chart.y_label), strict=True
    ):
        axis.set_label_text(axis_label(column, text))
    labels = [brief(point.label) for point in points]
    write_labels(axes, style, labels, [(p.x, p.y) for p in points], front.tolist(), line)


def pareto_front(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which points are on the Pareto front, ``(points,)``; higher is better in both coordinates.

    A point is on it when no other point is at least as good in both coordinates and better in one.
    """
    no_worse = (x[:, None] >= x) & (y[:, None] >= y)
    better = (x[:, None] > x) | (y[:, None] > y)
    return np.asarray(~(no_worse & better).any(axis=0))


NAMED = 3
"""How many entries a title names at most."""
FEWEST = 4
"""The fewest points of which a title says whether two numbers go together."""
HARDLY = 0.3
"""Below this size of Kendall's tau-b two numbers are said to hardly go together."""


def title_of_front(labels: Sequence[str], front: npt.NDArray[np.bool_], *, all_complete: bool) -> str:
    """Return which points no other point beats in both numbers; empty where there is no front."""
    names = display_names(labels)
    ahead = [names[label] for label, member in zip(labels, front, strict=True) if member]
    if not ahead:
        return ""
    return f"No {'' if all_complete else 'complete '}entry beats {joined(_some(ahead))} in both numbers"


def title_of_pairs(x: npt.ArrayLike, y: npt.ArrayLike, names: tuple[str, str], what: str) -> str:
    """Return whether two numbers go together, by Kendall's tau-b; empty for few points, or a number that is constant.

    `names`: those of the numbers. `what`: what has them, such as "defense".
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(x) < FEWEST or np.isnan(tau := float(kendall_rows(x, y)[0])):
        return ""
    first, second = map(brief, names)
    summary = f"Kendall’s tau-b {tau:.2f}, {len(x)} {what}s"
    if abs(tau) < HARDLY:
        return f"Higher {first} hardly goes with higher or lower {second}: {summary}"
    return f"Higher {first} goes with {'higher' if tau > 0 else 'lower'} {second}: {summary}"


def title_of_dots(rows: Sequence[Row], column: ColumnSpec) -> str:
    """Return which row has the best number; empty for fewer than two, without a direction, or where the best tie."""
    if len(rows) < 2 or not column.better:
        return ""
    sign = 1 if column.better == "higher" else -1
    names = display_names([row.label for row in rows])
    first, second = sorted(rows, key=lambda row: -sign * row.values[column.key].number_or(-sign * np.inf))[:2]
    best, next_ = (shown(row.values[column.key], column) for row in (first, second))
    if best == next_:
        return ""
    extreme = "highest" if sign > 0 else "lowest"
    return (
        f"{names[first.label]} has the {extreme} {head_of(column.label)}: {best}; next {names[second.label]}, {next_}"
    )


def title_of_curves(series: Sequence[Series], y_label: str) -> str:
    """Return which line is the highest wherever all are drawn; empty where none is, or there is only one line.

    Between their points, lines are straight in the numbers.
    """
    if len(series) < 2 or not all(line.x for line in series):
        return ""
    orders = [np.argsort(line.x, kind="stable") for line in series]
    lines = [(np.array(curve.x)[order], np.array(curve.y)[order]) for curve, order in zip(series, orders, strict=True)]
    low, high = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    shared_x = np.unique(np.concatenate([x for x, _ in lines]))
    shared_x = shared_x[(shared_x >= low) & (shared_x <= high)]
    if not len(shared_x):
        return ""
    heights = np.array([np.interp(shared_x, x, y) for x, y in lines])
    above = [i for i, height in enumerate(heights) if (height >= heights - 1e-12).all()]
    names = display_names([line.label for line in series])
    if len(above) == 1:
        return f"{names[series[above[0]].label]} has the highest {y_label or 'line'} throughout"
    return ""


def _some(names: Sequence[str]) -> list[str]:
    """Return the names of a title: all of them, or the first few and how many more there are."""
    return list(names) if len(names) <= NAMED + 1 else [*names[:NAMED], f"{len(names) - NAMED} more"]
