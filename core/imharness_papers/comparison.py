"""A published table beside a board: number by number where the setting is the same, and else by order."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.results.records import Board, Table, Value
from imharness_papers.commands import NOTHING, Ask, Runs, ask_of, runs
from imharness_papers.order import Order, order_of
from imharness_papers.pointers import extra, match, plain
from imharness_papers.published import Printed, PublishedColumn, PublishedRow, PublishedTable

SAME, OTHER, NOT_RUN = "same setting", "other data", "not run"
AGREES, DISAGREES, OPEN = TOLD = "agrees", "disagrees", "cannot tell"
FEWEST_UNITS = 5
"""An interval of fewer independent units than this is too uncertain itself to tell anything."""
PROXY = "proxy"
"""The word by which our tables say that something stands in for the judgement of people."""
STAND_IN = "backbone="
"""A setting that replaces the published network by a small one."""


@dataclass(frozen=True)
class Cell:
    """A published number beside ours, in our unit.

    `verdict`: in the same setting one of `TOLD`, else "other data", or "not run" with `missing`. They agree where the
    published number lies `within` our interval, widened by half a unit of the last printed digit. "Cannot tell": ours
    comes from fewer than `FEWEST_UNITS` independent units, or only an interval wider than `spread` holds the number.
    """

    entry: str
    published: float
    text: str
    half_digit: float
    spread: float | None = None
    """How far the largest and the smallest published number of the quantity are apart; None with fewer than two."""
    once: bool = False
    """Whether the published number is of one unit of those that ours is a mean of, such as one random split."""
    ours: Value | None = None
    label: str = ""
    setting: tuple[str, ...] = ()
    """In which ways the board was made in another setting than this number."""
    itself: tuple[str, ...] = ()
    """In which ways our entry is another than the published one, or why only its order can be compared."""
    missing: str = ""
    note: str = ""
    ask: Ask = NOTHING

    @property
    def units(self) -> int | None:
        """How many independent units ours is of."""
        if self.ours is None:
            return None
        return self.ours.n if self.ours.clusters is None else self.ours.clusters

    @property
    def within(self) -> tuple[float, float] | None:
        """The 95 % interval of ours; where the published number is of one unit, the one in which a further unit lies.

        A unit varies more than a mean of n units: the interval is sqrt(n + 1) times as wide.
        """
        if self.ours is None or self.ours.value is None or self.ours.low is None or self.ours.high is None:
            return None
        value, wider = self.ours.value, math.sqrt(self.units + 1) if self.once and self.units else 1.0
        return value - wider * (value - self.ours.low), value + wider * (self.ours.high - value)

    @property
    def verdict(self) -> str:
        """See the class."""
        if self.ours is None or self.ours.value is None:
            return NOT_RUN
        if self.setting or self.itself:
            return OTHER
        low, high = self.within or (self.ours.value, self.ours.value)
        inside = low - self.half_digit <= self.published <= high + self.half_digit
        few = self.units is not None and self.units < FEWEST_UNITS
        wide = self.spread is not None and high - low > self.spread
        if few or (inside and wide):
            return OPEN
        return AGREES if inside else DISAGREES

    @property
    def difference(self) -> float | None:
        """Ours less the published one."""
        return None if self.ours is None or self.ours.value is None else self.ours.value - self.published


def agreement(cells: Sequence[Cell], what: str = "") -> str:
    """Return in words how many of these cells agree, and of how many nothing can be told; `what` they are."""
    found = [cell.verdict for cell in cells]
    told = found.count(AGREES) + found.count(DISAGREES)
    parts = [f"{found.count(AGREES)} of {told} {what}agree"] if told else []
    return ", ".join([*parts, *([f"{found.count(OPEN)} {'' if told else what}cannot tell"] if OPEN in found else [])])


@dataclass(frozen=True)
class Series:
    """One quantity over entries. `ours` is the id of our table; `order` is over the entries that have both numbers.

    `label` is the quantity, with the data set where rows of several stand in one table.
    """

    label: str
    quantity: str
    ours: str
    cells: tuple[Cell, ...]
    order: Order
    note: str = ""

    def with_verdict(self, *verdicts: str) -> tuple[Cell, ...]:
        """Return the cells with one of these verdicts."""
        return tuple(cell for cell in self.cells if cell.verdict in verdicts)

    @property
    def verdict(self) -> str:
        """One of `SAME`, `OTHER` and `NOT_RUN`."""
        if self.with_verdict(*TOLD):
            return SAME
        return OTHER if self.with_verdict(OTHER) else NOT_RUN

    @property
    def says(self) -> str:
        """The verdict in words."""
        if self.verdict == SAME:
            return agreement(self.with_verdict(*TOLD))
        return self.order.says if self.verdict == OTHER else NOT_RUN


@dataclass(frozen=True)
class Comparison:
    """A published table, what our board has of it, and why the two may differ."""

    table: PublishedTable
    series: tuple[Series, ...]
    differs: tuple[str, ...]
    unpointed: tuple[str, ...]
    """Columns and rows that no number of ours stands for."""

    @property
    def entries_differ(self) -> tuple[str, ...]:
        """In which ways entries of ours are others than the published ones."""
        return tuple(dict.fromkeys(line for own in self.series for cell in own.cells for line in cell.itself))

    @property
    def not_run(self) -> dict[str, tuple[str, ...]]:
        """Reason -> the entries or quantities for which it is the reason that there is no number of ours."""
        found: dict[str, dict[str, None]] = {}
        for series in self.series:
            for cell in series.with_verdict(NOT_RUN):
                found.setdefault(cell.missing, {})[cell.entry] = None
        return {reason: tuple(entries) for reason, entries in found.items()}

    @property
    def runs(self) -> Runs:
        """What fills in the numbers that were not run."""
        return runs(self.table, (cell.ask for own in self.series for cell in own.with_verdict(NOT_RUN)))

    @property
    def verdict(self) -> str:
        """The strongest verdict of the series; `NOT_RUN` where there are none."""
        found = {series.verdict for series in self.series}
        return next((verdict for verdict in (SAME, OTHER) if verdict in found), NOT_RUN)


def compare(table: PublishedTable, board: Board | None) -> Comparison:
    """Return a table beside a board, which is None where the track has none."""
    beside = _Beside(table, board)
    data = dict.fromkeys([*table.data, *(name for row in table.rows for name in row.data or ())])
    over = dict(table.over)
    for row in table.rows:
        over |= {kind: tuple(dict.fromkeys([*over.get(kind, ()), *names])) for kind, names in (row.over or {}).items()}
    rows, columns = [r.label for r in table.rows if not r.ours], [c.label for c in table.columns if not c.ours]
    return Comparison(table, tuple(beside.series()), beside.differences(tuple(data), over), (*rows, *columns))


@dataclass(frozen=True)
class _Place:
    """A published number and where ours should stand."""

    row: PublishedRow
    column: PublishedColumn
    printed: Printed
    of: PublishedTable

    @property
    def entry(self) -> PublishedRow | PublishedColumn:
        return self.row if self.of.entries == "rows" else self.column

    @property
    def quantity(self) -> PublishedRow | PublishedColumn:
        return self.column if self.of.entries == "rows" else self.row

    @property
    def series(self) -> str:
        """The quantity, with the data set where rows have data sets of their own: only rows of one are in order."""
        own = self.row.data if self.of.entries == "rows" else None
        return ", ".join([self.quantity.label, *(name.partition("/")[2] for name in own or ())])

    @property
    def table(self) -> str:
        return self.column.ours.partition(":")[0]

    @property
    def pointers(self) -> tuple[str, str]:
        """The pointers to our row and to our column."""
        rest = self.column.ours.partition(":")[2]
        return (rest, self.row.ours) if self.of.transposed else (self.row.ours, rest)


class _Beside:
    """A published table beside a board, or beside nothing."""

    def __init__(self, table: PublishedTable, board: Board | None) -> None:
        self.table, self.board = table, board
        self._tables = {own.id: own for own in board.tables} if board else {}

    def series(self) -> Iterator[Series]:
        """Yield what points to something, quantity by quantity."""
        if self.table.matrix:
            yield self._mean_wins()
            return
        groups: dict[str, list[_Place]] = {}
        rows, columns = self.table.rows, self.table.columns
        lines = [(row, i) for row in rows for i in range(len(columns))]
        if self.table.entries == "rows":
            lines.sort(key=lambda line: line[1])
        for row, i in lines:
            place = _Place(row, columns[i], row.values[i], self.table)
            if row.ours and columns[i].ours and place.printed.value is not None:
                groups.setdefault(place.series, []).append(place)
        for label, places in groups.items():
            spread = _spread([place for place in places if place.entry.entry])
            cells = tuple(replace(self._cell(place), spread=spread) for place in places)
            ranked = [cell for cell, place in zip(cells, places, strict=True) if place.entry.entry]
            yield Series(
                label, places[0].quantity.label, places[0].table, cells, _order(ranked), places[0].quantity.note
            )

    def _cell(self, place: _Place) -> Cell:
        scale, value = place.column.scale, place.printed.value or 0.0
        bare = Cell(
            place.entry.label, value * scale, place.printed.text, place.printed.half_digit * scale,
            once=self.table.once, note=place.entry.note, ask=ask_of(self.table, place.row, place.column),
        )  # fmt: skip
        found, number, why = self._ours(place)
        if why or number is None:
            return replace(bare, missing=why)
        itself = [line for pointer, label in zip(place.pointers, found, strict=True)
                  for line in self._settings(pointer, label)]  # fmt: skip
        itself += ["times depend on the machine"] if place.column.hardware else []
        own = self._tables[place.table]
        spec = next(column for column in own.columns if found[1] in (column.key, column.label))
        if PROXY in f"{spec.label} {spec.description}":
            itself.append(f"ours is of a {PROXY}, not of people")
        setting = self.differences(place.row.data or self.table.data, place.row.over or self.table.over)
        return replace(bare, ours=number, label=found[0], setting=setting, itself=tuple(itself))

    def _ours(self, place: _Place) -> tuple[tuple[str, str], Value | None, str]:
        """Return our row and column as they are called, and the number, or why there is none."""
        table = self._tables.get(place.table)
        if table is None:
            return ("", ""), None, self._no_table(place.table)
        row, why = match(place.pointers[0], [own.label for own in table.rows])
        if row is None:
            return ("", ""), None, why
        called = {own.key: own.key for own in table.columns}
        column, _ = match(place.pointers[1], list(called))
        if column is None:
            called = {own.label: own.key for own in table.columns}
            column, why = match(place.pointers[1], list(called))
        if column is None:
            return (row, ""), None, f"column {why}"
        value = next(own for own in table.rows if own.label == row).values.get(called[column])
        if value is None or value.value is None:
            return (row, column), None, (value.missing if value else "") or "no number"
        return (row, column), value, ""

    def _no_table(self, id: str) -> str:
        return f"no table {id!r}" if self.board else f"no tables of {self.table.track}"

    def differences(self, data: Sequence[str], over: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        """Return in which ways the board was made in another setting than the paper's.

        `data`: the paper's data sets. `over`: component kind -> pointers to what its numbers are means over.
        """
        board, wanted = self.board, self.table.profiles
        if board is None:
            return ()
        used = sorted({plain(entry.label) for entry in board.entries if entry.kind == "dataset"})
        found = [f"profile {board.profile}, not {' or '.join(wanted)}"] if board.profile not in wanted else []
        if set(used) - {*self.table.besides.get("dataset", ()), *data} or not set(data) <= set(used):
            found.append(f"data {', '.join(used) or 'of no known set'}, not {', '.join(data) or 'named'}")
        if board.profile in self.table.set_up:
            found += options_differ(board.set_up, self.table.set_up[board.profile])
        for kind, pointers in over.items():
            labels = [entry.label for entry in board.entries if entry.kind == kind]
            found += _others(kind, pointers, labels, self.table.besides.get(kind, ()))
        found += [f"the first {board.limit} images only"] if board.limit else []
        found += ["a secret split"] if board.secret else []
        return (*found, *(["a run that is not finished"] if board.waiting else []))

    def _settings(self, pointer: str, label: str) -> list[str]:
        """Return how an entry of ours differs from the published one; a chosen parameter value is no difference."""
        more = [own for own in extra(pointer, label) if not self.table.chosen or own.startswith(STAND_IN)]
        return [f"{plain(label)} has {own}" + (", a stand-in network" if own.startswith(STAND_IN) else "")
                for own in more]  # fmt: skip

    def _mean_wins(self) -> Series:
        """Return how often each entry beats the others, mean over the opponents that both tables have."""
        label, table = "mean share of wins, %", self._tables.get(self.table.matrix)
        names = {line.label: line.ours for line in self.table.rows}
        ours = {name: match(pointer, [row.label for row in table.rows])[0] if table else None
                for name, pointer in names.items()}  # fmt: skip
        known = [name for name in names if ours[name] is not None]
        printed = np.array([[np.nan if v.value is None else v.value for v in row.values] for row in self.table.rows])
        place = [list(names).index(name) for name in known]
        theirs = _row_means(printed[np.ix_(place, place)])
        mine = _row_means(_grid(table, [str(ours[name]) for name in known])) if table else np.array([])
        setting, itself = (
            self.differences(self.table.data, self.table.over),
            ("of mean shares of wins only the order is compared",),
        )
        cells = []
        for name, row in zip(names, self.table.rows, strict=True):
            at = known.index(name) if name in known else -1
            met = at >= 0 and not np.isnan([mine[at], theirs[at]]).any()
            value = float(theirs[at]) if met else float(np.nanmean(printed[list(names).index(name)]))
            bare = Cell(name, value, f"{value:.2f}", 0.005, note=row.note, ask=ask_of(self.table, row))
            if not met:
                absent = f"{names[name]} is not there" if at < 0 else "no opponent of it is there"
                cells.append(replace(bare, missing=self._no_table(self.table.matrix) if table is None else absent))
            else:
                number = Value(value=float(mine[at]))
                cells.append(replace(bare, ours=number, label=str(ours[name]), setting=setting, itself=itself))
        return Series(label, label, self.table.matrix, tuple(cells), _order(cells))


def options_differ(ours: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> list[str]:
    """Return in which options and parameters a run differs from a profile of the same name.

    `ours` is None where they are not on record. An option is named by the path to it, and not set where it has its
    default.
    """
    if ours is None:
        return ["options that are not on record"]
    mine, theirs = dict(_leaves(ours)), dict(_leaves(wanted))
    other = [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
    lines = [f"{name} {mine.get(name, 'not set')}, not {theirs.get(name, 'its default')}" for name in other[:3]]
    return [*lines, *([f"{len(other) - 3} more options"] if len(other) > 3 else [])]


def _leaves(facts: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value in nested facts as JSON, with the path to it."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{place}{name} ")
        else:
            yield f"{place}{name}", json.dumps(value)


def _others(kind: str, pointers: Sequence[str], labels: Sequence[str], besides: Sequence[str]) -> list[str]:
    """Return which components of a kind the paper has and we have not, and the other way round but for `besides`."""

    def among(label: str, known: Sequence[str]) -> bool:
        return any(match(pointer, [label])[0] for pointer in known)

    missing = [pointer for pointer in pointers if not any(among(label, [pointer]) for label in labels)]
    more = [label for label in labels if not among(label, [*pointers, *besides])]
    found = [f"without {len(missing)} of the {len(pointers)} {kind}s: {_first(missing)}"] if missing else []
    return [*found, *([f"with {kind}s that the paper has not: {_first(more)}"] if more else [])]


def _first(names: Sequence[str]) -> str:
    return ", ".join([name.removesuffix("[*]") for name in names[:3]] + ["..."] * (len(names) > 3))


def _spread(places: Sequence[_Place]) -> float | None:
    values = [place.printed.value * place.column.scale for place in places if place.printed.value is not None]
    return max(values) - min(values) if len(values) > 1 else None


def _order(cells: Sequence[Cell]) -> Order:
    both = [
        (cell.entry, cell.published, cell.ours.value) for cell in cells if cell.ours and cell.ours.value is not None
    ]
    names, published, ours = zip(*both, strict=True) if both else ((), (), ())
    return order_of(names, published, ours)


def _grid(table: Table, labels: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the numbers of a table of who beats whom, for these rows and columns ``(k, k)``; NaN where none is."""
    columns = {own.label: own.key for own in table.columns}
    rows = {own.label: own.values for own in table.rows}
    found = [[rows[row].get(columns.get(column, "")) for column in labels] for row in labels]
    return np.array([[np.nan if v is None or v.value is None else v.value for v in line] for line in found])


def _row_means(grid: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean of each row ``(k,)`` without NaN; NaN where a row has nothing."""
    known = ~np.isnan(grid)
    counts = known.sum(axis=1)
    return np.where(counts > 0, np.where(known, grid, 0.0).sum(axis=1) / np.maximum(counts, 1), np.nan)
