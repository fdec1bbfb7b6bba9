"""Small drawings inside a page: this module turns numbers into coordinates of an SVG, and templates write them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from imharness.documents.tables import Value

LINE = 13.0
"""The height of a label, px."""
SLIM, BROAD = frozenset("ijlftrIJ .,:;/|'-[]()"), frozenset("mwMW%+=@")
PLAIN, SLIM_PX, BROAD_PX, CAPITAL_PX, BOLD = 7.6, 5.3, 11.9, 9.4, 1.1
"""Widths in px of characters at 12 px in DejaVu Sans, the widest of the usual fonts; `BOLD` is the factor for bold."""


@dataclass(frozen=True)
class Scale:
    """Maps numbers from `low` to `high` to px from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, number: float) -> float:
        """Return the place of a number in px, rounded to one decimal."""
        share = (number - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, most: int = 5) -> list[float]:
        """Return the multiples within the scale of the smallest 1, 2 or 5 times 10^k that has at most `most` there."""
        width = self.high - self.low
        if width <= 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(width / (most + 1)))
        ticks = list[float]()
        for factor in (1, 2, 5, 10, 20, 50):
            step = power * factor
            inside = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
            ticks = [round(i * step, 10) for i in inside]
            if len(ticks) <= most:
                break
        return ticks


def scale_of(numbers: Iterable[float | None], start: float, end: float, margin: float = 0.06) -> Scale:
    """Return a scale that holds all numbers; `margin`: the room beyond each end, as a share of what they span."""
    finite = [number for number in numbers if number is not None and math.isfinite(number)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    room = margin * (high - low) or max(abs(high), 1.0) * margin
    return Scale(low - room, high + room, start, end)


def ends(values: Iterable[Value | None]) -> list[float | None]:
    """Return all numbers of values, with the ends of their intervals."""
    return [number for v in values if v is not None for number in (v.value, v.low, v.high)]


@dataclass(frozen=True)
class Tick:
    """A line of the grid: its place, px, and its number."""

    at: float
    text: str


class Mark(NamedTuple):
    """A point of a scatter plot: its place in px, its name, its kind (a CSS class) and its tooltip."""

    x: float
    y: float
    name: str
    kind: str
    title: str


class Label(NamedTuple):
    """A text at a place in px; `anchor` says which end of the text is there."""

    x: float
    y: float
    text: str
    anchor: str
    kind: str


def width_of(text: str, *, bold: bool = False) -> float:
    """Return the largest width that a label can have, px."""
    wide = sum(
        SLIM_PX if sign in SLIM else BROAD_PX if sign in BROAD else CAPITAL_PX if sign.isupper() else PLAIN
        for sign in text
    )
    return wide * (BOLD if bold else 1.0)


def place_labels(
    marks: Sequence[Mark], first: Sequence[int], frame: tuple[float, float, float, float], *, all: bool = True
) -> list[Label]:
    """Return labels that cover neither each other nor a mark, each nearest to its own mark.

    Labels without room are left out. `first`: positions of the marks that are labelled first, in order; `all`: whether
    the other marks are labelled, too. `frame`: left, top, right and bottom end of the region for labels, px.
    """
    taken = [(m.x - 6, m.y - 6, m.x + 6, m.y + 6) for m in marks]
    labels = []
    for i in [*first, *(i for i in range(len(marks)) if all and i not in set(first))]:
        mark = marks[i]
        width = width_of(mark.name, bold=mark.kind == "winner")
        middle = min(max(mark.x, frame[0] + width / 2), frame[2] - width / 2)
        for gap in (9.0, 20.0, 34.0):
            shifts = (0.0, gap - 9, 9 - gap)  # down from the middle of the mark
            places = [(mark.x + 9, mark.y + 4 + down, "start") for down in shifts]
            places += [(mark.x - 9, mark.y + 4 + down, "end") for down in shifts]
            places += [(middle, mark.y - gap, "middle"), (middle, mark.y + gap + 8, "middle")]
            boxes = [(position, _box(*position, width)) for position in places]
            free = [position for position, box in boxes if _fits(box, taken, frame) and _nearest(box, marks, mark)]
            if free:
                x, y, anchor = free[0]
                taken.append(_box(x, y, anchor, width))
                labels.append(Label(round(x, 1), round(y, 1), mark.name, anchor, mark.kind))
                break
    return labels


def _box(x: float, y: float, anchor: str, width: float) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom end of a label that is anchored at a place."""
    left_edge = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return left_edge, y - LINE + 3, left_edge + width, y + 3


def _nearest(box: tuple[float, float, float, float], marks: Sequence[Mark], target: Mark) -> bool:
    """Return whether no other mark is as near to a label as its mark, `target`."""

    def far(mark: Mark) -> float:
        return max(box[0] - mark.x, mark.x - box[2], 0.0) + max(box[1] - mark.y, mark.y - box[3], 0.0)

    return all(far(target) < far(mark) for mark in marks if (mark.x, mark.y) != (target.x, target.y))


def _fits(
    box: tuple[float, float, float, float],
    taken: Sequence[tuple[float, float, float, float]],
    frame: tuple[float, float, float, float],
) -> bool:
    """Return whether a box is within the frame and overlaps none that is taken."""
    left_edge, top, right, bottom = box
    if left_edge < frame[0] or top < frame[1] or right > frame[2] or bottom > frame[3]:
        return False
    return not any(
        left_edge < other_right and other_left < right and top < other_bottom and other_top < bottom
        for other_left, other_top, other_right, other_bottom in taken
    )
