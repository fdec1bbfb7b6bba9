"""Places the labels of a scatter plot beside their points, where they cover nothing; points that matter have one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from imharness.reading.text import NO_MARKUP
from imharness_leaderboard.picture import Style

SIZE = 8.0
"""The font size of a label, points."""
NEAR, FAR = (6.0, 12.0, 20.0), tuple(np.arange(30.0, 270.0, 13.0).tolist())
"""Distances of a label from its point, px; the far ones are only for labels that are needed."""
_BESIDE = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_BETWEEN = ((2, 1), (-2, 1), (2, -1), (-2, -1), (1, 2), (-1, 2), (1, -2), (-1, -2))
"""Directions in which room is sought; those between the others only far from a point."""
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
    box: Box
    towards: tuple[int, int]
    offset: tuple[float, float]
    far: bool

    def joint(self, at: tuple[float, float]) -> list[Box]:
        """Return the boxes that the line to a point at `at` covers, without its end there; none for a near place."""
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

    A label overlaps no marker and no other label; where there is room it stays off `line`. `points` and `line` are in
    data coordinates. A label that stands apart from its point is joined to it by a line.
    """
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
        place = _free(at[i], labels[i], frame, taken, drawn, must=needed[i])
        if place is None:
            continue
        taken.append(place.box)
        drawn += place.joint(at[i])
        across, up = place.towards
        text = axes.annotate(
            labels[i],
            points[i],
            (place.offset[0] * 0.72, place.offset[1] * 0.72),
            textcoords="offset points",
            fontsize=SIZE,
            color=style.ink if needed[i] else style.dim,
            annotation_clip=False,
            ha=_SIDES[across],
            va=_HEIGHTS[up],
            arrowprops=_joint(style) if place.far else None,
        )
        text.set_in_layout(False)


def _joint(style: Style) -> dict[str, object]:
    return {"arrowstyle": "-", "color": style.dim, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}


def _free(
    at: tuple[float, float], label: str, frame: Box, taken: Sequence[Box], line: Sequence[Box], *, must: bool
) -> _Place | None:
    """Return a free place for a label, or None; a label that must be there gets the least bad place if none is free."""
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
    marked, lined, off = np.array(taken), np.array(line).reshape(-1, 4), None
    for place in inside:
        if _covers(place.box, marked):
            continue
        off = off or place
        if not _covers(place.box, lined) and not any(_covers(part, marked) for part in place.joint(at)):
            return place
    if off is not None or not must:
        return off
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
            left = at[0] + dx - (width, width / 2, 0)[across + 1]
            low = at[1] + dy - (height, height / 2, 0)[up + 1]
            yield _Place(Box(left, low, left + width, low + height), (across, up), (dx, dy), distance > NEAR[1])


def _along(line: Sequence[tuple[float, float]]) -> Iterator[Box]:
    """Yield small boxes along a line."""
    for (x0, y0), (x1, y1) in pairwise(line):
        for part in np.linspace(0, 1, max(2, int(math.hypot(x1 - x0, y1 - y0) / 5))):
            x, y = x0 + part * (x1 - x0), y0 + part * (y1 - y0)
            yield Box(x - 1, y - 1, x + 1, y + 1)


@cache
def _width(label: str) -> float:
    """Return the width of a label in px, in the widest of the usual fonts."""
    with mpl.rc_context(dict(NO_MARKUP)):
        return float(TextPath((0, 0), label, size=SIZE).get_extents().width) / 0.72 + 3
