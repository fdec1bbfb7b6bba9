"""The drawing of protection against utility: a point for each entry, the gate shaded, the Pareto front joined.

Better is always up and to the right, whichever way the numbers run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imharness.documents.rankings import Ranking
from imharness.documents.tables import ColumnSpec, Row, Table, Value, joined
from imharness_leaderboard.drawing import Label, Mark, Scale, Tick, ends, place_labels, scale_of
from imharness_leaderboard.names import spelled_measure
from imharness_leaderboard.tables import column_named, shown

LEFT, RIGHT, TOP, BOTTOM = 50.0, 12.0, 12.0, 40.0
"""Room around the drawing for its axes, px."""
FEW = 12
"""If there are at most so many entries, all of them are labelled, where there is room."""
MOST = 100
"""The most entries with a mark of their own, a name and an interval; the others are dots."""


@dataclass(frozen=True)
class Bar:
    """The interval of an entry's protection: the entry, its place and both ends, px."""

    label: str
    x: float
    low: float
    high: float


@dataclass(frozen=True)
class Front:
    """The drawing, in px.

    Attributes:
        width, height: of the drawing.
        entries: the entry of each mark.
        marks: the points of entries with a mark of their own.
        rest: the dots of all further entries, in SVG's notation of paths.
        labels: the names beside marks.
        x_ticks, y_ticks: the lines of the grid.
        x_label, y_label: the names of the axes.
        shade: x and width of the region that does not pass the gate; None without a gate.
        doubt: x and width of the interval of the gate; None where it has none.
        line: the points of the Pareto front, in SVG's notation of points.
        bars: the intervals of protection.
        frame: x, y, width and height of the region of the marks.
        scale: the numbers of protection at the bottom and at the top, with which a script moves the marks.
        across: the lowest and the highest number of utility, and the x of both, for the script; where less is better,
            the lowest number is at the right.
        summary: what the drawing shows, in words.
    """

    width: float
    height: float
    entries: Sequence[str]
    marks: Sequence[Mark]
    rest: str
    labels: Sequence[Label]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    x_label: str
    y_label: str
    shade: tuple[float, float] | None
    doubt: tuple[float, float] | None
    line: str
    bars: Sequence[Bar]
    frame: tuple[float, float, float, float]
    scale: tuple[float, float]
    across: tuple[float, float, float, float]
    summary: str


def front_of(
    table: Table, ranking: Ranking, names: Mapping[str, str], visible: Sequence[str], width: float, height: float
) -> Front | None:
    """Return the drawing of a ranking, or None where no entry has both numbers.

    `names`: label -> what it is called. `visible`: the labels that the page lists, which have marks of their own first.
    `width` and `height`: of the drawing, px.
    """
    protection, utility = column_named(table, "worst"), column_named(table, "utility")
    measured_rows = [row for row in table.rows if _known(row, "worst") and _known(row, "utility")]
    if protection is None or utility is None or not measured_rows:
        return None
    x, y = scales_of(measured_rows, ranking, protection, utility, width, height)
    marked_labels = _with_marks(measured_rows, ranking, visible)
    rows, rest = (
        [row for row in measured_rows if row.label in marked_labels],
        [row for row in measured_rows if row.label not in marked_labels],
    )
    marks = [
        Mark(
            x(_given(row.values["utility"])),
            y(_given(row.values["worst"])),
            names[row.label],
            _kind(row, ranking),
            _title(row, names[row.label], protection, utility, ranking),
        )
        for row in rows
    ]
    room = (LEFT + 2, TOP + 2, width - RIGHT - 2, height - BOTTOM - 2)
    first = [i for i, row in enumerate(rows) if row.label == (ranking.winner or _best(rows, ranking))]
    chosen = first + [i for i, row in enumerate(rows) if ranking.places[row.label].front]
    chosen += [i for i, row in enumerate(rows) if row.label in (*ranking.may_be_best, ranking.undefended)]
    on_front = sorted((m for m, row in zip(marks, rows, strict=True) if ranking.places[row.label].front))
    return Front(
        width,
        height,
        [row.label for row in rows],
        marks,
        "".join(f"M{x(_given(row.values['utility']))} {y(_given(row.values['worst']))}h0" for row in rest),
        place_labels(marks, list(dict.fromkeys(chosen)), room, all=len(measured_rows) <= FEW),
        [Tick(x(t), f"{t:g}") for t in x.ticks()],
        [Tick(y(t), f"{t:g}") for t in y.ticks()],
        _axis(utility),
        _axis(protection),
        _shade(x, ranking.gate),
        _doubt(x, table, ranking),
        " ".join(f"{m.x},{m.y}" for m in on_front),
        [_bar(x, y, row) for row in rows if row.values["worst"].low is not None],
        (LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM),
        (y.low, y.high) if y.start > y.end else (y.high, y.low),
        (x.low, x.high, x.start, x.end),
        _summary(measured_rows, ranking, protection, utility, names),
    )


def scales_of(
    rows: Sequence[Row], ranking: Ranking, protection: ColumnSpec, utility: ColumnSpec, width: float, height: float
) -> tuple[Scale, Scale]:
    """Return the scales of utility and of protection; what is better lies to the right, and above."""
    across, up = (LEFT, width - RIGHT), (height - BOTTOM, TOP)
    x = scale_of(
        [*(row.values["utility"].value for row in rows), ranking.gate],
        *(across[::-1] if utility.better == "lower" else across),
        0.12,
    )
    y = scale_of(ends(row.values["worst"] for row in rows), *(up[::-1] if protection.better == "lower" else up), 0.08)
    return x, y


def _with_marks(rows: Sequence[Row], ranking: Ranking, visible: Sequence[str]) -> set[str]:
    """Return the entries that have marks of their own: the winner, controls, the front, what the page lists."""
    labels = [row.label for row in rows]
    first = [label for label in labels if ranking.places[label].control or label == ranking.winner]
    ahead = [label for label in labels if ranking.places[label].front]
    order = dict.fromkeys([*first, *ahead, *(label for label in visible if label in set(labels)), *labels])
    return set(list(order)[:MOST])


def _best(rows: Sequence[Row], ranking: Ranking) -> str:
    """Return the first entry that is complete, passes the gates and is no control; "" if there is none."""
    able = [
        row
        for row in rows
        if (standing := ranking.places[row.label]).complete and standing.able and not standing.control
    ]
    return able[0].label if able else ""


def _known(row: Row, key: str) -> bool:
    value = row.values.get(key)
    return value is not None and value.value is not None


def _given(value: Value) -> float:
    assert value.value is not None
    return value.value


def _kind(row: Row, ranking: Ranking) -> str:
    """Return the CSS class of an entry's mark."""
    standing = ranking.places[row.label]
    if standing.control:
        return "control"
    if row.label == ranking.winner:
        return "winner"
    return "front" if standing.front else ("flagged" if standing.flags or not standing.complete else "plain")


def _title(row: Row, name: str, protection: ColumnSpec, utility: ColumnSpec, ranking: Ranking) -> str:
    standing = ranking.places[row.label]
    notes = [f"control: {standing.control}"] if standing.control else []
    notes += list(standing.flags) + ([] if standing.complete else ["incomplete"])
    numbers = f"{protection.label} {shown(row.values['worst'], protection)}, "
    numbers += f"{utility.label} {shown(row.values['utility'], utility)}"
    return f"{name}: {numbers}" + (f" ({'; '.join(notes)})" if notes else "")


def _axis(column: ColumnSpec) -> str:
    return spelled_measure(column.label) + (f" ({column.better} is better)" if column.better else "")


def _shade(x: Scale, gate: float | None) -> tuple[float, float] | None:
    """Return the region that does not pass, which lies to the left of the gate."""
    if gate is None:
        return None
    left_edge, right = sorted((x.start, x.end))
    return left_edge, round(min(max(x(gate), left_edge), right) - left_edge, 1)


def _doubt(x: Scale, table: Table, ranking: Ranking) -> tuple[float, float] | None:
    """Return x and width of the interval of the gate.

    The gate is a share of the undefended entry's utility, so its interval is that share of this utility's interval.
    """
    plain = next((row.values.get("utility") for row in table.rows if row.label == ranking.undefended), None)
    if ranking.gate is None or plain is None or not plain.value or plain.low is None or plain.high is None:
        return None
    left_edge, right = sorted((x.start, x.end))
    share = ranking.gate / plain.value
    ends_of = sorted(min(max(x(share * end), left_edge), right) for end in (plain.low, plain.high))
    return ends_of[0], round(ends_of[1] - ends_of[0], 1)


def _bar(x: Scale, y: Scale, row: Row) -> Bar:
    value = row.values["worst"]
    assert value.low is not None
    assert value.high is not None
    return Bar(row.label, x(_given(row.values["utility"])), y(value.low), y(value.high))


def _summary(
    rows: Sequence[Row], ranking: Ranking, protection: ColumnSpec, utility: ColumnSpec, names: Mapping[str, str]
) -> str:
    """Return what the drawing shows in words, for readers who do not see it."""
    ahead = [names[row.label] for row in rows if ranking.places[row.label].front]
    front = joined(ahead) or "no entry"
    text = f"{len(rows)} entries by {utility.label} and {protection.label}. On the front: {front}."
    return text + (f" Winner: {names[ranking.winner]}." if ranking.winner in names else " There is no winner.")
