"""The drawing of protection against utility: a point for each entry, the gate shaded, the Pareto front joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from imharness.results.rankings import Ranking
from imharness.results.tables import ColumnSpec, Row, Table, Value, joined
from imharness_leaderboard.chips import short_names
from imharness_leaderboard.drawing import Label, Mark, Scale, ends, place_labels, scale_of
from imharness_leaderboard.tables import column_named, shown

LEFT, RIGHT, TOP, BOTTOM = 58.0, 14.0, 14.0, 44.0
"""Room around the drawing for its axes, px."""


@dataclass(frozen=True)
class Tick:
    """A line of the grid: its place, px, and its number."""

    at: float
    text: str


@dataclass(frozen=True)
class Front:
    """A drawing in px: utility grows to the right, protection upwards.

    `shade`: x and width of the region that does not pass the gate, None where there is none. `line`: the points of the
    front in SVG's notation. `bars`: x, low and high end of the interval of each entry's protection.
    """

    width: float
    height: float
    marks: Sequence[Mark]
    labels: Sequence[Label]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    x_label: str
    y_label: str
    shade: tuple[float, float] | None
    line: str
    bars: Sequence[tuple[float, float, float]]
    frame: tuple[float, float, float, float]
    summary: str


def front_of(table: Table, ranking: Ranking, width: float, height: float, *, small: bool = False) -> Front | None:
    """Return the drawing of a ranking, or None where no entry has both numbers; a `small` one is for a card."""
    protection, utility = column_named(table, "worst"), column_named(table, "utility")
    rows = [row for row in table.rows if _known(row, "worst") and _known(row, "utility")]
    if protection is None or utility is None or not rows:
        return None
    left, right, top, bottom = (8.0, 8.0, 10.0, 10.0) if small else (LEFT, RIGHT, TOP, BOTTOM)
    gate = ranking.gate
    x = scale_of([*(row.values["utility"].value for row in rows), gate], left, width - right, 0.12)
    y = scale_of([*ends(row.values["worst"] for row in rows)], height - bottom, top, 0.1)
    names = short_names([row.label for row in rows])
    marks = [
        Mark(
            x(_given(row.values["utility"])),
            y(_given(row.values["worst"])),
            names[row.label],
            _kind(row, ranking),
            _title(row, protection, utility, ranking),
        )
        for row in rows
    ]
    room = (left + 2, top + 2, width - right - 2, height - bottom - 2)
    first = [i for i, row in enumerate(rows) if row.label == (ranking.winner or _best(rows, ranking))]
    if small:
        chosen = list(dict.fromkeys(first + [i for i, row in enumerate(rows) if row.label == ranking.undefended]))
        allowed = {marks[i].name for i in chosen}
        labelled = [label for label in place_labels(marks, chosen, room) if label.text in allowed]
    else:
        chosen = first + [i for i, row in enumerate(rows) if ranking.places[row.label].front]
        chosen += [i for i, row in enumerate(rows) if ranking.places[row.label].control]
        labelled = place_labels(marks, list(dict.fromkeys(chosen)), room)
    on_front = sorted((m for m, row in zip(marks, rows, strict=True) if ranking.places[row.label].front))
    return Front(
        width,
        height,
        marks,
        labelled,
        [] if small else [Tick(x(t), f"{t:g}") for t in x.ticks()],
        [] if small else [Tick(y(t), f"{t:g}") for t in y.ticks()],
        _axis(utility),
        _axis(protection),
        _shade(x, gate, utility),
        " ".join(f"{m.x},{m.y}" for m in on_front),
        [] if small else [_bar(x, y, row) for row in rows if row.values["worst"].low is not None],
        (left, top, width - left - right, height - top - bottom),
        _summary(rows, ranking, protection, utility, names),
    )


def _best(rows: Sequence[Row], ranking: Ranking) -> str:
    """Return the first entry that is complete, may win by the gate and is no control; empty if there is none."""
    able = [own for own in rows if (place := ranking.places[own.label]).complete and place.able and not place.control]
    return able[0].label if able else ""


def _known(row: Row, key: str) -> bool:
    value = row.values.get(key)
    return value is not None and value.value is not None


def _given(value: Value) -> float:
    assert value.value is not None
    return value.value


def _kind(row: Row, ranking: Ranking) -> str:
    place = ranking.places[row.label]
    if place.control:
        return "control"
    if row.label == ranking.winner:
        return "winner"
    return "front" if place.front else ("flagged" if place.flags or not place.complete else "plain")


def _title(row: Row, protection: ColumnSpec, utility: ColumnSpec, ranking: Ranking) -> str:
    place = ranking.places[row.label]
    notes = [f"control: {place.control}"] if place.control else []
    notes += list(place.flags) + ([] if place.complete else ["incomplete"])
    numbers = f"{protection.label} {shown(row.values['worst'], protection)}, "
    numbers += f"{utility.label} {shown(row.values['utility'], utility)}"
    return f"{row.label}: {numbers}" + (f" ({'; '.join(notes)})" if notes else "")


def _axis(column: ColumnSpec) -> str:
    return column.label + (f" ({column.better} is better)" if column.better else "")


def _shade(x: Scale, gate: float | None, utility: ColumnSpec) -> tuple[float, float] | None:
    """Return the region that does not pass: left of the gate, or right of it where lower is better."""
    if gate is None:
        return None
    at = min(max(x(gate), x.start), x.end)
    return (at, round(x.end - at, 1)) if utility.better == "lower" else (x.start, round(at - x.start, 1))


def _bar(x: Scale, y: Scale, row: Row) -> tuple[float, float, float]:
    value = row.values["worst"]
    assert value.low is not None
    assert value.high is not None
    return x(_given(row.values["utility"])), y(value.low), y(value.high)


def _summary(
    rows: Sequence[Row], ranking: Ranking, protection: ColumnSpec, utility: ColumnSpec, names: dict[str, str]
) -> str:
    """Return what the drawing shows in words, for readers who do not see it."""
    ahead = [names[row.label] for row in rows if ranking.places[row.label].front]
    front = joined(ahead) or "no entry"
    text = f"{len(rows)} entries by {utility.label} and {protection.label}. On the front: {front}."
    return text + (f" Winner: {names[ranking.winner]}." if ranking.winner in names else " There is no winner.")
