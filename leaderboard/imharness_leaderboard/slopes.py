"""Rank against rank: where a paper places entries, and where the board does, as lines from left to right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.papers.verdicts import Comparison, Series
from imharness_leaderboard.wording import brief

LINE, TOP = 19.0, 26.0
"""The height of a line and of the head above all lines, px."""
LONGEST = 24
"""The most characters of a name beside a drawing."""


class Side(NamedTuple):
    """An entry on one side: its name with its place, and the height of its line."""

    text: str
    y: float


class Slope(NamedTuple):
    """An entry's line: its heights on both sides, whether it rises on the board, falls or stays, and its numbers."""

    start: float
    end: float
    kind: str
    title: str


@dataclass(frozen=True)
class Slopes:
    """The drawing of a quantity; `title` says what is seen."""

    title: str
    height: float
    left: tuple[Side, ...]
    right: tuple[Side, ...]
    lines: tuple[Slope, ...]


def slopes(own: Comparison, series: Series) -> Slopes | None:
    """Return the drawing of a quantity; None where fewer than two entries have both numbers."""
    cells = [cell for cell in series.cells if cell.entry in series.order.entries and cell.ours is not None]
    ours = [cell.ours.value for cell in cells if cell.ours is not None and cell.ours.value is not None]
    if len(cells) < 2 or len(ours) != len(cells):
        return None
    sign = 1 if _better(own, series) == "lower" else -1
    first, second = (_places(sign * np.array(values)) for values in ([cell.published for cell in cells], ours))
    heights = [_heights(places, [cell.entry for cell in cells]) for places in (first, second)]
    lines = [
        Slope(a, b, _kind(p, q), f"{cell.entry}: {cell.text} published, {value:.4g} here; place {p:g}, {q:g} here")
        for cell, value, a, b, p, q in zip(cells, ours, *heights, first, second, strict=True)
    ]
    left, right = (
        tuple(Side(_name(cell.entry, place), y) for cell, place, y in zip(cells, places, at, strict=True))
        for places, at in zip((first, second), heights, strict=True)
    )
    return Slopes(_title(own, series, len(cells)), TOP + LINE * len(cells) + 6, left, right, tuple(lines))


def _better(own: Comparison, series: Series) -> str:
    """Return which numbers are better; where columns are the entries, that is the same for all of them."""
    columns = own.table.columns
    wanted = [line for line in columns if line.label == series.quantity] if own.table.entries == "rows" else columns
    return next((line.better for line in wanted), "")


def _places(costs: npt.NDArray[np.float64]) -> list[float]:
    """Return the place of each entry, 1 for the lowest cost; entries with equal numbers share the middle of theirs."""
    from scipy.stats import rankdata

    return [float(place) for place in rankdata(costs)]


def _heights(places: list[float], names: list[str]) -> list[float]:
    """Return the height of each entry's line: one below the other in the order of places, equal ones by name."""
    order = sorted(range(len(places)), key=lambda i: (places[i], names[i]))
    found = [0.0] * len(places)
    for line, i in enumerate(order):
        found[i] = TOP + LINE * (line + 0.5)
    return found


def _kind(paper: float, here: float) -> str:
    return "up" if here < paper else "down" if here > paper else "same"


def _name(entry: str, place: float) -> str:
    name = brief(entry)
    return f"{place:g} {name if len(name) <= LONGEST else name[: LONGEST - 1] + '…'}"


def _title(own: Comparison, series: Series, size: int) -> str:
    order, where = series.order, f"{series.label}, table {own.table.table}"
    tau = "" if order.tau is None else f" (Kendall’s tau-b {order.tau:z.2f})"
    says = {
        "same order": f"The board puts the {size} entries in the paper’s order",
        "reversed": f"The board puts the {size} entries in the reverse order",
        "too few entries": f"{size} entries are too few to tell an order",
    }.get(order.says, f"{size} entries do not tell whether the orders agree")
    return f"{where}: {says[:1].lower()}{says[1:]}{tau}"
