"""Compares a published table with a leaderboard: number by number if the setting is the same, and else by order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy

from imharness.papers.commands import ask_of
from imharness.papers.order import Order, order_of
from imharness.papers.pointers import match
from imharness.papers.published import Printed, PublishedColumn, PublishedRow, PublishedTable
from imharness.papers.settings import computed_otherwise, entry_differs, settings_differ
from imharness.papers.verdicts import Cell, Comparison, Series
from imharness.results.labels import method_of
from imharness.results.leaderboards import Leaderboard
from imharness.results.tables import Table, Value

PROXY = "proxy"
"""The word with which our tables say that something stands in for human judgement."""
HALF_DIGIT = 0.005
"""Half a unit of the last printed digit of a share of wins, in %."""


def compare(table: PublishedTable, leaderboard: Leaderboard | None) -> Comparison:
    """Return the comparison of a table with a leaderboard, which is None if the track has none."""
    beside = _Beside(table, leaderboard)
    data = dict.fromkeys([*table.data, *(name for row in table.rows for name in row.data or ())])
    over = dict(table.over)
    for row in table.rows:
        over |= {kind: tuple(dict.fromkeys([*over.get(kind, ()), *names])) for kind, names in (row.over or {}).items()}
    rows, columns = [r.label for r in table.rows if not r.ours], [c.label for c in table.columns if not c.ours]
    return Comparison(
        table, tuple(beside.series()), settings_differ(table, leaderboard, tuple(data), over), (*rows, *columns)
    )


@dataclass(frozen=True)
class _Number:
    """A published number of the table `of`, and the pointers to ours."""

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
        """The quantity, with the data set if rows have their own: only rows with the same data are ordered together."""
        data = self.row.data if self.of.entries == "rows" else None
        return ", ".join([self.quantity.label, *(method_of(name) for name in data or ())])

    @property
    def table(self) -> str:
        """The id of our table."""
        return self.column.ours.partition(":")[0]

    @property
    def pointers(self) -> tuple[str, str]:
        """The pointers to our row and to our column."""
        rest = self.column.ours.partition(":")[2]
        return (rest, self.row.ours) if self.of.transposed else (self.row.ours, rest)


class _Beside:
    """The comparison of a published table with a leaderboard, or with nothing."""

    def __init__(self, table: PublishedTable, leaderboard: Leaderboard | None) -> None:
        self.table, self.leaderboard = table, leaderboard
        self._tables = {table.id: table for table in leaderboard.tables} if leaderboard else {}
        self._settings = dict[tuple[object, ...], tuple[str, ...]]()

    def series(self) -> Iterator[Series]:
        """Yield the numbers that point to ours, quantity by quantity."""
        if self.table.matrix:
            yield self._mean_wins()
            return
        groups: dict[str, list[_Number]] = {}
        rows, columns = self.table.rows, self.table.columns
        lines = [(row, i) for row in rows for i in range(len(columns))]
        if self.table.entries == "rows":
            lines.sort(key=lambda line: line[1])
        for row, i in lines:
            number = _Number(row, columns[i], row.values[i], self.table)
            if row.ours and columns[i].ours and number.printed.value is not None:
                groups.setdefault(number.series, []).append(number)
        for label, numbers in groups.items():
            spread = _spread([number for number in numbers if number.entry.entry])
            cells = tuple(replace(self._cell(number), spread=spread) for number in numbers)
            ranked = [cell for cell, number in zip(cells, numbers, strict=True) if number.entry.entry]
            quantity = numbers[0].quantity
            yield Series(label, quantity.label, numbers[0].table, cells, _order(ranked), quantity.note)

    def _cell(self, published: _Number) -> Cell:
        """Return a published number in our unit, beside ours or the reason why there is none."""
        scale, value = published.column.scale, published.printed.value or 0.0
        bare = Cell(
            published.entry.label,
            value * scale,
            published.printed.text,
            published.printed.half_digit * scale,
            once=self.table.once,
            note=published.entry.note,
            otherwise=computed_otherwise(self.table, published.row, published.column),
            ask=ask_of(self.table, published.row, published.column),
        )
        labels, number, why = self._ours(published)
        if why or number is None:
            return replace(bare, missing=why)
        itself = [
            line
            for pointer, label in zip(published.pointers, labels, strict=True)
            for line in entry_differs(self.table, pointer, label)
        ]
        itself += ["times depend on the machine"] if published.column.hardware else []
        table = self._tables[published.table]
        spec = next(column for column in table.columns if labels[1] in (column.key, column.label))
        if PROXY in f"{spec.label} {spec.description}":
            itself.append(f"ours is of a {PROXY}, not of people")
        return replace(bare, ours=number, label=labels[0], setting=self._setting(published.row), itself=tuple(itself))

    def _setting(self, row: PublishedRow) -> tuple[str, ...]:
        """Return how our setting differs from that of a row; rows with the same setting are compared only once."""
        data, over = row.data or self.table.data, row.over or self.table.over
        key = (tuple(data), tuple((kind, tuple(pointers)) for kind, pointers in over.items()))
        if key not in self._settings:
            self._settings[key] = settings_differ(self.table, self.leaderboard, data, over)
        return self._settings[key]

    def _ours(self, published: _Number) -> tuple[tuple[str, str], Value | None, str]:
        """Return the names of our row and column, and the number or why there is none."""
        table = self._tables.get(published.table)
        if table is None:
            return ("", ""), None, self._no_table(published.table)
        row, why = match(published.pointers[0], [candidate.label for candidate in table.rows])
        if row is None:
            return ("", ""), None, why
        keys = {column.key: column.key for column in table.columns}
        column, _ = match(published.pointers[1], list(keys))
        if column is None:
            keys = {column.label: column.key for column in table.columns}
            column, why = match(published.pointers[1], list(keys))
        if column is None:
            return (row, ""), None, f"column {why}"
        value = next(candidate for candidate in table.rows if candidate.label == row).values.get(keys[column])
        if value is None or value.value is None:
            return (row, column), None, (value.missing if value else "") or "no number"
        return (row, column), value, ""

    def _no_table(self, id: str) -> str:
        return f"no table {id!r}" if self.leaderboard else f"no tables of {self.table.track}"

    def _mean_wins(self) -> Series:
        """Return how often each entry beats the others: the mean over the opponents that both tables have.

        The note of the quantity says how many of the single cells agree.
        """
        label, table = "mean share of wins, %", self._tables.get(self.table.matrix)
        names = {line.label: line.ours for line in self.table.rows}
        ours = {
            name: match(pointer, [row.label for row in table.rows])[0] if table else None
            for name, pointer in names.items()
        }
        present = [name for name in names if ours[name] is not None]
        printed = np.array([[np.nan if v.value is None else v.value for v in row.values] for row in self.table.rows])
        indices = [list(names).index(name) for name in present]
        theirs = _row_means(printed[np.ix_(indices, indices)])
        shares, counts = _grid(table, [str(ours[name]) for name in present]) if table else (np.zeros((0, 0)),) * 2
        mine = _row_means(shares) if table else np.array([])
        note = _single_cells(printed[np.ix_(indices, indices)], shares, counts) if table else ""
        setting = settings_differ(self.table, self.leaderboard, self.table.data, self.table.over)
        itself = ("of mean shares of wins only the order is compared",)
        cells = []
        for name, row in zip(names, self.table.rows, strict=True):
            at = present.index(name) if name in present else -1
            met = at >= 0 and not np.isnan([mine[at], theirs[at]]).any()
            value = float(theirs[at]) if met else float(np.nanmean(printed[list(names).index(name)]))
            bare = Cell(
                name,
                value,
                f"{value:.2f}",
                HALF_DIGIT,
                note=row.note,
                otherwise=computed_otherwise(self.table, row),
                ask=ask_of(self.table, row),
            )
            if not met:
                absent = f"{names[name]} is not there" if at < 0 else "no opponent of it is there"
                cells.append(replace(bare, missing=self._no_table(self.table.matrix) if table is None else absent))
            else:
                number = Value(value=float(mine[at]))
                cells.append(replace(bare, ours=number, label=str(ours[name]), setting=setting, itself=itself))
        return Series(label, label, self.table.matrix, tuple(cells), _order(cells), note)


def _spread(numbers: Sequence[_Number]) -> float | None:
    """Return the largest minus the smallest published number in our unit; None if there are fewer than two."""
    values = [number.printed.value * number.column.scale for number in numbers if number.printed.value is not None]
    return max(values) - min(values) if len(values) > 1 else None


def _order(cells: Sequence[Cell]) -> Order:
    both = [
        (cell.entry, cell.published, cell.ours.value) for cell in cells if cell.ours and cell.ours.value is not None
    ]
    names, published, ours = zip(*both, strict=True) if both else ((), (), ())
    return order_of(names, published, ours)


def _grid(table: Table, labels: Sequence[str]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the shares ``(k, k)`` in a table of who beats whom, NaN if there is none, and their numbers of conditions.

    Rows and columns are those of `labels`.
    """
    columns = {column.label: column.key for column in table.columns}
    rows = {row.label: row.values for row in table.rows}
    values = [rows[row].get(columns.get(column, "")) for row in labels for column in labels]
    shares = [np.nan if v is None or v.value is None else v.value for v in values]
    counts = [np.nan if v is None or v.n is None else v.n for v in values]
    shape = (len(labels), len(labels))
    return np.array(shares).reshape(shape), np.array(counts).reshape(shape)


def _single_cells(
    printed: npt.NDArray[np.float64], shares: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]
) -> str:
    """Say how many single cells of two tables of who beats whom ``(k, k)``, in %, agree.

    A cell agrees if the published share lies in the Wilson interval of ours, which takes conditions as independent and
    is therefore rather too narrow. A pair has the same winner if the same entry beats the other more often in both.
    """
    both = ~np.isnan(printed) & ~np.isnan(shares) & ~np.isnan(counts)
    inside = 0
    for theirs, share, n in zip(printed[both], shares[both], counts[both], strict=True):
        interval = scipy.stats.binomtest(round(share / 100 * n), int(n)).proportion_ci(method="wilson")
        inside += 100 * interval.low - HALF_DIGIT <= theirs <= 100 * interval.high + HALF_DIGIT
    pairs = np.triu(both & both.T, 1)
    theirs, mine = (np.sign(grid - grid.T)[pairs] for grid in (printed, shares))
    decided = (theirs != 0) & (mine != 0)
    return (
        f"Of {both.sum()} single cells, {inside} agree: the published share lies in the 95 % interval of ours. Of "
        f"{decided.sum()} pairs in which both tables have a winner, {(theirs == mine)[decided].sum()} have the same "
        "one."
        if both.any()
        else ""
    )


def _row_means(grid: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean of each row ``(k,)`` without NaN, or NaN if a row has no number."""
    present = ~np.isnan(grid)
    counts = present.sum(axis=1)
    return np.where(counts > 0, np.where(present, grid, 0.0).sum(axis=1) / np.maximum(counts, 1), np.nan)
