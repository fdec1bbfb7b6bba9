"""Pictures of a board as SVG, each in light and dark: scatter with its front, bars, curves, ranks, distributions.

Drawn by matplotlib without a display; the same numbers give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from imharness.results.identity import digest
from imharness.results.records import Board, Chart, Comparison, Table
from imharness_leaderboard.naming import brief, column_named, slug, table_named, track_slug
from imharness_leaderboard.scores import Scores

THEMES = {
    "light": {"ink": "#1c2126", "dim": "#59636e", "line": "#dcdfe2", "paper": "#ffffff"},
    "dark": {"ink": "#e6e9ec", "dim": "#a0abb6", "line": "#3a434c", "paper": "#1b2026"},
}
COLOURS = {
    "light": ("#0072b2", "#d55e00", "#007a5a", "#a8467f", "#8a6d00", "#3f7fae", "#5b5b5b"),
    "dark": ("#56b4e9", "#e69f00", "#2fc79b", "#e08fc0", "#f0e442", "#9fd0f0", "#b5b5b5"),
}
"""After Okabe and Ito's palette, safe for colour-blind readers, darkened or lightened for contrast."""
SETTINGS = {
    "svg.fonttype": "none", "svg.hashsalt": "leaderboard", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.linewidth": 0.6,
}  # fmt: skip
VERSION = 2
"""Of the drawing: raise it when pictures of the same numbers look different."""
Draw = Callable[[Axes, "_Style"], None]


@dataclass(frozen=True)
class _Style:
    ink: str
    dim: str
    line: str
    paper: str
    colours: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A picture of a board: where its two files go, what it says, and how to draw it."""

    name: str
    title: str
    caption: str
    source: str
    draw: Draw
    size: tuple[float, float]

    def file(self, theme: str) -> str:
        """Return the address of the picture in a theme."""
        return f"{self.name}-{theme}.svg"

    def svg(self, theme: str) -> bytes:
        """Draw the picture."""
        style = _Style(**THEMES[theme], colours=COLOURS[theme])
        with mpl.rc_context(dict(SETTINGS)):  # type: ignore[arg-type]
            figure = Figure(figsize=self.size, layout="constrained", facecolor=style.paper)
            axes = figure.add_subplot(facecolor=style.paper)
            for side in axes.spines.values():
                side.set_color(style.line)
            axes.tick_params(colors=style.dim, which="both")
            axes.grid(color=style.line)
            axes.set_axisbelow(True)
            axes.xaxis.label.set_color(style.ink)
            axes.yaxis.label.set_color(style.ink)
            self.draw(axes, style)
            out = io.BytesIO()
            figure.savefig(out, format="svg", metadata={"Date": None, "Title": self.title})
        return out.getvalue()


def pictures_of(board: Board, compared: Sequence[Scores]) -> list[Picture]:
    """Return every picture of a board."""
    found = [picture for chart in board.charts if (picture := _picture(board, chart)) is not None]
    for scores in compared:
        if len(scores.comparison.entries) > 1:
            found += list(_of_comparison(board, scores))
    return found


def _picture(board: Board, chart: Chart) -> Picture | None:
    table = table_named(board, chart.table)
    size = (7.2, 4.6)
    if chart.kind == "curves" and chart.series:
        draw: Draw = lambda axes, style: _curves(axes, style, chart)  # noqa: E731
    elif chart.kind == "scatter" and (points := _points(table, chart)):
        draw = lambda axes, style: _scatter(axes, style, chart, table, points)  # noqa: E731
    elif chart.kind == "bars" and table is not None and column_named(table, chart.x) is not None:
        draw = lambda axes, style: _bars(axes, style, table, chart.x)  # noqa: E731
        size = (7.2, 1.0 + 0.3 * len(table.rows))
    else:
        return None
    source = digest([VERSION, chart.model_dump(mode="json"), table.model_dump(mode="json") if table else None])
    name = f"pictures/{track_slug(board.track)}/{slug(chart.id)}"
    return Picture(name, chart.title, chart.caption, source, draw, size)


def _of_comparison(board: Board, scores: Scores) -> Iterator[Picture]:
    comparison = scores.comparison
    source = digest([VERSION, scores.source])
    base = f"pictures/{track_slug(board.track)}/{slug(comparison.id)}"
    tall = (7.2, 1.2 + 0.27 * len(comparison.entries))
    what = comparison.title[:1].lower() + comparison.title[1:]
    yield Picture(
        f"{base}-ranks",
        f"Critical differences: {what}",
        f"Mean rank by {comparison.measure} over the {comparison.unit}s that all entries share, the best on top; a bar "
        "joins entries that no test tells apart (Wilcoxon, Bonferroni-corrected over all pairs). Entries that lack "
        "conditions which most others have are left out.",
        source,
        lambda axes, style: _ranks(axes, style, scores),
        tall,
    )
    if comparison.measure not in ("guessed right", "agreement", "closeness"):
        yield Picture(
            f"{base}-spread",
            f"Distribution of {comparison.measure}: {what}",
            f"{comparison.description} Box: quartiles over {comparison.unit}s, each with its mean over conditions; "
            "whiskers: 5th and 95th percentile.",
            source,
            lambda axes, style: _spread(axes, style, scores),
            tall,
        )


def _points(table: Table | None, chart: Chart) -> list[tuple[str, float, float]]:
    if chart.series:
        return [(line.label, line.x[0], line.y[0]) for line in chart.series if line.x]
    if table is None:
        return []
    found = []
    for row in table.rows:
        x, y = row.values.get(chart.x), row.values.get(chart.y)
        if x is not None and y is not None and x.value is not None and y.value is not None:
            found.append((row.label, x.value, y.value))
    return found


def _scatter(
    axes: Axes, style: _Style, chart: Chart, table: Table | None, points: list[tuple[str, float, float]]
) -> None:
    x, y = np.array([p[1] for p in points]), np.array([p[2] for p in points])
    columns = [column_named(table, key) if table else None for key in (chart.x, chart.y)]
    signs = [{"higher": 1, "lower": -1}.get(c.better, 0) if c else 0 for c in columns]
    front = _front(signs[0] * x, signs[1] * y) if chart.front and all(signs) else np.zeros(len(x), dtype=bool)
    if front.any():
        order = np.argsort(x[front])
        axes.plot(x[front][order], y[front][order], color=style.colours[1], linewidth=1.2, zorder=2)
    axes.scatter(x[~front], y[~front], s=26, color=style.colours[0], zorder=3)
    axes.scatter(x[front], y[front], s=34, color=style.colours[1], marker="D", zorder=3)
    if chart.log:
        axes.set_xscale("log")
    for axis, column, text in zip((axes.xaxis, axes.yaxis), columns, (chart.x_label, chart.y_label), strict=True):
        arrow = (
            {"higher": " (higher is better)", "lower": " (lower is better)"}.get(column.better, "") if column else ""
        )
        axis.set_label_text((column.label if column else text) + arrow)
    _label_points(axes, style, points, front)


def _front(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return the points that no other is at least as good as in both, and better in one; more is better."""
    no_worse = (x[:, None] >= x) & (y[:, None] >= y)
    better = (x[:, None] > x) | (y[:, None] > y)
    return np.asarray(~(no_worse & better).any(axis=0))


def _label_points(
    axes: Axes, style: _Style, points: list[tuple[str, float, float]], front: npt.NDArray[np.bool_]
) -> None:
    """Write labels where there is room, those of the front first."""
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    places = [axes.transData.transform((x, y)) for _, x, y in points]
    taken: list[tuple[float, float, float, float]] = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    frame = axes.get_window_extent()
    for i in sorted(range(len(points)), key=lambda i: (not front[i], i)):
        label = brief(points[i][0])
        left, low = places[i]
        width, height = 6.2 * len(label), 12.0
        for dx, dy in ((7.0, -5.0), (-width - 7.0, -5.0), (-width / 2, 8.0), (-width / 2, -19.0)):
            box = (left + dx, low + dy, left + dx + width, low + dy + height)
            inside = box[0] >= frame.x0 and box[2] <= frame.x1 and box[1] >= frame.y0 and box[3] <= frame.y1 + 10
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                text = axes.annotate(
                    label, (points[i][1], points[i][2]), (dx * 0.72, dy * 0.72), textcoords="offset points",
                    fontsize=8, color=style.ink if front[i] else style.dim, annotation_clip=False,
                )  # fmt: skip
                text.set_in_layout(False)
                break


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _bars(axes: Axes, style: _Style, table: Table, key: str) -> None:
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


def _curves(axes: Axes, style: _Style, chart: Chart) -> None:
    dashes = ("-", "--", ":", "-.")
    for i, line in enumerate(chart.series):
        colour = style.colours[i % len(style.colours)]
        x, y = np.array(line.x), np.array(line.y)
        axes.plot(x, y, dashes[i // len(style.colours) % 4], color=colour, linewidth=1.4, label=brief(line.label))
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


def _ranks(axes: Axes, style: _Style, scores: Scores) -> None:
    comparison = scores.comparison
    kept = _comparable(comparison, scores.vectors)
    means = scores.means[kept]
    means = means[:, ~np.isnan(means).any(axis=0)]
    sign = 1 if comparison.better == "higher" else -1
    ranks = _mean_ranks(-sign * means)
    beats = scores.tested.beats(comparison.alpha)[np.ix_(kept, kept)]
    order = np.argsort(ranks, kind="stable")
    height = np.empty(len(order))
    height[order] = np.arange(len(order))[::-1]
    axes.hlines(height, 0.5, ranks, color=style.line, linewidth=0.8)
    axes.scatter(ranks, height, s=28, color=style.colours[0], zorder=3)
    axes.set_yticks(height, [brief(comparison.entries[i]) for i in kept])
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0.5, len(kept) + 1.5)
    for number, (first, last) in enumerate(_bars_of_ties(order, beats)):
        x = max(ranks[first], ranks[last]) + 0.25 + 0.16 * (number % 4)
        axes.plot([x, x], [height[first] + 0.2, height[last] - 0.2], color=style.colours[1], linewidth=2.4)
    axes.set_xlabel(f"mean rank by {comparison.measure} (1 is best)")


def _comparable(comparison: Comparison, vectors: npt.NDArray[np.float32]) -> list[int]:
    """Return the entries that have every condition which most entries have."""
    starts = comparison.starts()
    has = np.array(
        [
            [bool((~np.isnan(row[starts[c] : starts[c + 1]])).any()) for c in range(len(comparison.conditions))]
            for row in vectors
        ]
    )
    usual = has.mean(axis=0) > 0.5
    return [i for i in range(len(has)) if has[i, usual].all()]


def _mean_ranks(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    from scipy.stats import rankdata

    return np.asarray(rankdata(costs, axis=0).mean(axis=1))


def _bars_of_ties(order: npt.NDArray[np.int64], beats: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (first, last) of each longest run of neighbouring ranks in which nobody beats anybody."""
    found: list[tuple[int, int]] = []
    reach = -1
    for start in range(len(order)):
        end = start
        while end + 1 < len(order) and not _any_beats(beats, order[start : end + 2]):
            end += 1
        if end > start and end > reach:
            found.append((int(order[start]), int(order[end])))
            reach = end
    return found


def _any_beats(beats: npt.NDArray[np.bool_], group: npt.NDArray[np.int64]) -> bool:
    return bool(beats[np.ix_(group, group)].any())


def _spread(axes: Axes, style: _Style, scores: Scores) -> None:
    comparison, means = scores.comparison, scores.means
    sign = 1 if comparison.better == "higher" else -1
    middle = np.array([np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else np.nan for row in means])
    order = [i for i in np.argsort(sign * middle, kind="stable") if not np.isnan(middle[i])]
    stats = []
    for i in order:
        row = means[i][~np.isnan(means[i])]
        low, first, mid, third, high = np.percentile(row, [5, 25, 50, 75, 95])
        stats.append({"whislo": low, "q1": first, "med": mid, "q3": third, "whishi": high, "fliers": []})
    line = {"color": style.ink, "linewidth": 0.9}
    axes.bxp(
        stats, orientation="horizontal", widths=0.6, showfliers=False, patch_artist=True,
        boxprops={"facecolor": style.colours[0], "edgecolor": style.ink, "linewidth": 0.6},
        medianprops={"color": style.paper, "linewidth": 1.8}, whiskerprops=line, capprops=line,
    )  # fmt: skip
    axes.set_yticks(np.arange(1, len(order) + 1), [brief(comparison.entries[i]) for i in order])
    axes.grid(visible=False, axis="y")
    direction = "higher" if comparison.better == "higher" else "lower"
    axes.set_xlabel(f"{comparison.measure} ({direction} is better)")
