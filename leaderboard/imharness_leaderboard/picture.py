"""One picture of the site: an SVG for the light and one for the dark theme.

Matplotlib draws the light one without a display, and the same numbers give the same bytes; the dark one is the same
file in other colours. In a scatter plot, the points that matter have a label, which stands where it covers nothing.
Matplotlib is imported when a picture is drawn: building a site that has not changed does not need it.
"""

from __future__ import annotations

import io
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.reading.text import NO_MARKUP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THEMES = {
    "light": {"ink": "#1c2126", "dim": "#59636e", "line": "#dcdfe2", "paper": "#ffffff"},
    "dark": {"ink": "#e6e9ec", "dim": "#a0abb6", "line": "#3a434c", "paper": "#1b2026"},
}
COLOURS = {
    "light": ("#0072b2", "#d55e00", "#007a5a", "#a8467f", "#8a6d00", "#3f7fae", "#5b5b5b"),
    "dark": ("#56b4e9", "#e69f00", "#2fc79b", "#e08fc0", "#f0e442", "#9fd0f0", "#b5b5b5"),
}
"""Okabe and Ito's palette, which colour-blind readers can distinguish, darkened or lightened for contrast."""
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "leaderboard",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.6,
    **NO_MARKUP,
}
VERSION = 7
"""Version of the drawing. Raise it when pictures of the same numbers look different, so that they are drawn again."""
WIDTH = 7.2
"""The width of every picture, inches."""
KEPT = 200
"""The number of drawn pictures that are kept in memory for the next build of a site, tens of kB each."""
_DRAWN: dict[tuple[object, ...], bytes] = {}
"""Pictures by what they show; the most recently used one is last."""
_LOCK = threading.Lock()


@dataclass(frozen=True)
class Style:
    """The colours of a theme; `colours` are those of the data, in order."""

    ink: str
    dim: str
    line: str
    paper: str
    colours: tuple[str, ...]


def style_of(theme: str) -> Style:
    """Return the colours of a theme, ``light`` or ``dark``."""
    return Style(**THEMES[theme], colours=COLOURS[theme])


def darkened(light: bytes) -> bytes:
    """Return a picture of the light theme in the colours of the dark one.

    Every colour of a picture must come from its style; labels and lines stand where they stood.
    """
    dark = _dark_colours()
    return re.sub(rb"((?:fill|stroke): )(#[0-9a-f]{6})", lambda match: match[1] + dark.get(match[2], match[2]), light)


@cache
def _dark_colours() -> dict[bytes, bytes]:
    """Return the dark colour for each light one, both as they stand in a file."""
    pair = [_all_colours(style_of(theme)) for theme in ("light", "dark")]
    return {light.encode(): dark.encode() for light, dark in zip(*pair, strict=True)}


def _all_colours(style: Style) -> list[str]:
    return [style.ink, style.dim, style.line, style.paper, *style.colours]


Draw = Callable[["Axes", Style], None]
Columns = Mapping[str, Sequence[object]]
"""The numbers of a picture, column by column."""


def rows_high(rows: int) -> float:
    """Return the height of a picture with a line for each row, inches."""
    return 1.0 + 0.27 * rows


@dataclass(frozen=True)
class Picture:
    """A picture and how to draw it.

    `name` is its address without theme and extension, `source` a digest of everything it shows, `size` in inches;
    `data` are the numbers that it shows.
    """

    name: str
    title: str
    caption: str
    source: str
    draw: Draw
    size: tuple[float, float]
    data: Columns

    @property
    def numbers(self) -> str:
        """The address of the file with the picture's numbers."""
        return f"{self.name}.csv"

    def file(self, theme: str) -> str:
        """Return the address of the picture's file; `theme` is ``light`` or ``dark``."""
        return f"{self.name}-{theme}.svg"

    def svg(self, theme: str) -> bytes:
        """Return the picture as an SVG file; one that this process drew lately is not drawn again."""
        key = (self.name, self.title, self.source, self.size, theme)
        with _LOCK:
            drawing = _DRAWN.pop(key, None)
        drawing = self.drawn(theme) if drawing is None else drawing
        with _LOCK:
            _DRAWN[key] = drawing
            if len(_DRAWN) > KEPT:
                del _DRAWN[next(iter(_DRAWN))]
        return drawing

    def drawn(self, theme: str) -> bytes:
        """Return the picture as an SVG file, drawn anew."""
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        style = style_of(theme)
        with mpl.rc_context(dict(SETTINGS)):
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
            # Saving a figure would draw it twice: once to lay it out, although drawing the canvas does that anyway.
            canvas = FigureCanvasSVG(figure)
            canvas.print_svg(out, metadata={"Date": None, "Title": self.title})  # type: ignore[no-untyped-call]
        return out.getvalue()


SIZE = 8.0
"""The font size of a label, points."""
NEAR, FAR = (6.0, 12.0, 20.0), tuple(np.arange(30.0, 270.0, 13.0).tolist())
"""Distances of a label from its point, px (100 an inch); the far ones are only for labels that are needed."""
POINTS = 0.72
"""The size of a px, points."""
_BESIDE = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_BETWEEN = ((2, 1), (-2, 1), (2, -1), (-2, -1), (1, 2), (-1, 2), (1, -2), (-1, -2))
"""Directions from a point in which room for its label is sought; `_BETWEEN` only at large distances."""
_SIDES = {-1: "right", 0: "center", 1: "left"}
_HEIGHTS = {-1: "top", 0: "center", 1: "bottom"}


class Box(NamedTuple):
    """A rectangle of the drawing, px."""

    left: float
    low: float
    right: float
    high: float

    def shared(self, other: Box) -> float:
        """Return the area that two rectangles share, px²."""
        across = min(self.right, other.right) - max(self.left, other.left)
        up = min(self.high, other.high) - max(self.low, other.low)
        return across * up if across > 0 and up > 0 else 0.0


class _Place(NamedTuple):
    """A possible place of a label.

    `towards`: on which side of the point it is, -1, 0 or 1 across and up; `offset`: how far from the point, px; `far`:
    whether it is so far that a line joins it to the point.
    """

    box: Box
    towards: tuple[int, int]
    offset: tuple[float, float]
    far: bool

    def joint(self, at: tuple[float, float]) -> list[Box]:
        """Return boxes along the line to the point at `at`, without its end at the point; none for a near place."""
        dx, dy = self.offset
        ends = [(at[0] + 0.4 * dx, at[1] + 0.4 * dy), (at[0] + dx, at[1] + dy)]
        return list(_along(ends)) if self.far else []


def write_labels(
    axes: Axes,
    style: Style,
    labels: Sequence[str],
    points: Sequence[tuple[float, float]],
    needed: Sequence[bool],
    line: Sequence[tuple[float, float]] = (),
) -> None:
    """Label points where there is room; labels that are `needed` come first and are always written.

    A label overlaps no marker and no other label, unless it is needed and nothing is free; where there is room it stays
    off `line`. `points` and `line` are in data coordinates. A line joins a label to a point that it stands apart from.
    """
    from matplotlib.figure import Figure

    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")  # the layout that was measured here must not change when the labels are there
    at = [(float(x), float(y)) for x, y in axes.transData.transform(points)]
    taken = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in at]
    drawn = list(_along([(float(x), float(y)) for x, y in axes.transData.transform(line)])) if len(line) else []
    extent = axes.get_window_extent()
    frame = Box(extent.x0 + 2, extent.y0 + 2, extent.x1, extent.y1 + 10)
    for i in sorted(range(len(labels)), key=lambda i: (not needed[i], i)):
        position = _free(at[i], labels[i], frame, taken, drawn, must=needed[i])
        if position is None:
            continue
        taken.append(position.box)
        drawn += position.joint(at[i])
        across, up = position.towards
        text = axes.annotate(
            labels[i],
            points[i],
            (position.offset[0] * POINTS, position.offset[1] * POINTS),
            textcoords="offset points",
            fontsize=SIZE,
            color=style.ink if needed[i] else style.dim,
            annotation_clip=False,
            ha=_SIDES[across],
            va=_HEIGHTS[up],
            arrowprops=_joint(style) if position.far else None,
        )
        text.set_in_layout(False)


def _joint(style: Style) -> dict[str, object]:
    return {"arrowstyle": "-", "color": style.dim, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}


def _free(
    at: tuple[float, float], label: str, frame: Box, taken: Sequence[Box], line: Sequence[Box], *, must: bool
) -> _Place | None:
    """Return a place for the label of a point at `at`, or None if none is free.

    `taken`: the boxes of markers and labels, which a free place does not overlap. `line`: boxes along lines; a free
    place off these is better. With `must`, a label without a free place gets the one that overlaps `taken` least.
    """
    width, height = _width(label), 14.0
    places = list(_places(at, width, height, (*NEAR, *FAR) if must else NEAR))
    inside = [
        p
        for p in places
        if p.box.left >= frame.left
        and p.box.right <= frame.right
        and p.box.low >= frame.low
        and p.box.high <= frame.high
    ]
    marked, lined, crossing = np.array(taken), np.array(line).reshape(-1, 4), None
    for position in inside:
        if _covers(position.box, marked):
            continue
        crossing = crossing or position
        if not _covers(position.box, lined) and not any(_covers(segment, marked) for segment in position.joint(at)):
            return position
    if crossing is not None or not must:
        return crossing
    return min(inside or places, key=lambda p: sum(p.box.shared(other) for other in taken))


def _covers(box: Box, others: npt.NDArray[np.float64]) -> bool:
    """Return whether a box overlaps any of `others`, ``(n, 4)`` in the order of a `Box`."""
    across = np.minimum(box.right, others[:, 2]) > np.maximum(box.left, others[:, 0])
    up = np.minimum(box.high, others[:, 3]) > np.maximum(box.low, others[:, 1])
    return bool((across & up).any())


def _places(at: tuple[float, float], width: float, height: float, distances: Sequence[float]) -> Iterator[_Place]:
    for distance in distances:
        for right, above in _BESIDE + (_BETWEEN if distance > NEAR[-1] else ()):
            long = math.hypot(right, above)
            dx, dy = right * distance / long, above * distance / long
            across, up = (right > 0) - (right < 0), (above > 0) - (above < 0)
            left_edge = at[0] + dx - (width, width / 2, 0)[across + 1]
            low = at[1] + dy - (height, height / 2, 0)[up + 1]
            yield _Place(
                Box(left_edge, low, left_edge + width, low + height), (across, up), (dx, dy), distance > NEAR[1]
            )


def _along(line: Sequence[tuple[float, float]]) -> Iterator[Box]:
    """Yield small boxes along a line."""
    for (x0, y0), (x1, y1) in pairwise(line):
        for fraction in np.linspace(0, 1, max(2, int(math.hypot(x1 - x0, y1 - y0) / 5))):
            x, y = x0 + fraction * (x1 - x0), y0 + fraction * (y1 - y0)
            yield Box(x - 1, y - 1, x + 1, y + 1)


@cache
def _width(label: str) -> float:
    """Return the width of a label in px, in the widest of the usual fonts."""
    import matplotlib as mpl
    from matplotlib.textpath import TextPath

    with mpl.rc_context(dict(NO_MARKUP)):
        return float(TextPath((0, 0), label, size=SIZE).get_extents().width) / POINTS + 3
