"""What is seen in a picture, as its title: a sentence from the numbers that are drawn.

It speaks of the points, lines, boxes and bars alone. What is shown to be better is said by rankings, from their
intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from imharness.results.charts import Series
from imharness.results.tables import ColumnSpec, Row, joined
from imharness.statistics.correlation import kendall_rows
from imharness_leaderboard.names import display_names, head_of
from imharness_leaderboard.tables import shown
from imharness_leaderboard.wording import brief

NAMED = 3
"""How many entries a title names at most."""
FEWEST = 4
"""The fewest points of which a title says whether two numbers go together."""
HARDLY = 0.3
"""Below this size of Kendall's tau-b two numbers are said to hardly go together."""


def title_of_front(labels: Sequence[str], front: npt.NDArray[np.bool_], *, all_complete: bool) -> str:
    """Return which points no other point beats in both numbers; empty where there is no front."""
    names = display_names(labels)
    ahead = [names[label] for label, own in zip(labels, front, strict=True) if own]
    if not ahead:
        return ""
    return f"No {'' if all_complete else 'complete '}entry beats {joined(_some(ahead))} in both numbers"


def title_of_ranks(labels: Sequence[str], ranks: Sequence[float], tied: int) -> str:
    """Return which entry has the best mean rank, and from whom it is not told; empty where the best two tie.

    `labels`, `ranks`: the best first. `tied`: with how many entries behind it a bar joins the first.
    """
    if len(labels) < 2 or f"{ranks[0]:.2f}" == f"{ranks[1]:.2f}":
        return ""
    names = display_names(labels)
    first, *behind = (names[label] for label in labels)
    told = f"not told from {joined(_some(behind[:tied]))}" if tied else f"told from {behind[0]}, the next"
    return f"{first} has the best mean rank, {ranks[0]:.2f}, and is {told}"


def title_of_boxes(
    labels: Sequence[str], medians: Sequence[float], measure: str, better: str, *, all_complete: bool = True
) -> str:
    """Return which box has the best median; empty for fewer than two, without a direction, or where the best tie.

    `labels`: the entries that met the same conditions; `all_complete`: whether no other one is drawn.
    """
    if len(labels) < 2 or better not in ("higher", "lower"):
        return ""
    sign, names = 1 if better == "higher" else -1, display_names(labels)
    first, second = sorted(range(len(labels)), key=lambda i: -sign * medians[i])[:2]
    best, next_ = (f"{medians[i]:z.3g}" for i in (first, second))
    if best == next_:
        return ""
    extreme = "highest" if sign > 0 else "lowest"
    return (
        f"{'' if all_complete else 'Of complete entries, '}"
        f"{names[labels[first]]} has the {extreme} median of {head_of(measure)}: {best}; "
        f"next {names[labels[second]]}, {next_}"
    )


def title_of_pairs(x: npt.ArrayLike, y: npt.ArrayLike, names: tuple[str, str], what: str) -> str:
    """Return whether two numbers go together, by Kendall's tau-b; empty for few points, or a number that is constant.

    `names`: those of the numbers. `what`: the kind of thing that has them, such as "defense".
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(x) < FEWEST or np.isnan(tau := float(kendall_rows(x, y)[0])):
        return ""
    first, second = map(brief, names)
    told = f"Kendall’s tau-b {tau:.2f}, {len(x)} {what}s"
    if abs(tau) < HARDLY:
        return f"Higher {first} hardly goes with higher or lower {second}: {told}"
    return f"Higher {first} goes with {'higher' if tau > 0 else 'lower'} {second}: {told}"


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
    lines = [(np.array(own.x)[order], np.array(own.y)[order]) for own, order in zip(series, orders, strict=True)]
    low, high = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    at = np.unique(np.concatenate([x for x, _ in lines]))
    at = at[(at >= low) & (at <= high)]
    if not len(at):
        return ""
    heights = np.array([np.interp(at, x, y) for x, y in lines])
    above = [i for i, own in enumerate(heights) if (own >= heights - 1e-12).all()]
    names = display_names([line.label for line in series])
    if len(above) == 1:
        return f"{names[series[above[0]].label]} has the highest {y_label or 'line'} throughout"
    return ""


def _some(names: Sequence[str]) -> list[str]:
    """Return the names of a title: all of them, or the first few and how many more there are."""
    return list(names) if len(names) <= NAMED + 1 else [*names[:NAMED], f"{len(names) - NAMED} more"]
