"""Compares a published table with a leaderboard: number by number if the setting is the same, and else by order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import Table, Value
from imharness.papers.commands import ask_of
from imharness.papers.order import Order, order_of
from imharness.papers.pointers import match
from imharness.papers.published import Printed, PublishedColumn, PublishedRow, PublishedTable
from imharness.papers.settings import computed_otherwise, entry_differs, settings_differ
from imharness.papers.verdicts import Cell, Comparison, Series
from imharness.results.labels import method_of

PROXY = "proxy"
"""The word with which our tables say that something stands in for human judgement."""
HALF_DIGIT = 0.005
"""Half a unit of the last printed digit of a share of wins, in %."""


def compare(table: PublishedTable, leaderboard: Leaderboard | None) -> Comparison:
    """Return the comparison of a table with a leaderboard, which is None if the track has none."""
    comparer = _Comparer(table, leaderboard)
    data = dict.fromkeys([*table.data, *(name for row in table.rows for name in row.data or ())])
    over = dict(table.over)
    for row in table.rows:
        for kind, names in (row.over or {}).items():
            over[kind] = tuple(dict.fromkeys([*over.get(kind, ()), *names]))
    without_pointer = [row.label for row in table.rows if not row.ours]
    without_pointer += [column.label for column in table.columns if not column.ours]
    return Comparison(
        table,
        tuple(comparer.series()),
        settings_differ(table, leaderboard, tuple(data), over),
        tuple(without_pointer),
    )


@dataclass(frozen=True)
class _Number:
    """A number of a published table with its row and column, which point to the same number of ours."""

    row: PublishedRow
    column: PublishedColumn
    printed: Printed
    published_table: PublishedTable

    @property
    def entry(self) -> PublishedRow | PublishedColumn:
        """What is ranked: the row, or the column in a table whose entries are columns."""
        return self.row if self.published_table.entries == "rows" else self.column

    @property
    def quantity(self) -> PublishedRow | PublishedColumn:
        """What was measured of the entry: the other one of row and column."""
        return self.column if self.published_table.entries == "rows" else self.row

    @property
    def series(self) -> str:
        """The quantity, with the data set if rows have their own: only rows with the same data are ordered together."""
        data = self.row.data if self.published_table.entries == "rows" else None
        return ", ".join([self.quantity.label, *(method_of(name) for name in data or ())])

    @property
    def our_table(self) -> str:
        """The id of our table, which stands before the colon in the column's pointer."""
        return self.column.ours.partition(":")[0]

    @property
    def pointers(self) -> tuple[str, str]:
        """The pointer to our row, and the pointer to our column."""
        by_column = self.column.ours.partition(":")[2]
        return (by_column, self.row.ours) if self.published_table.transposed else (self.row.ours, by_column)


class _Ours(NamedTuple):
    """Our number for a published one: the labels of its row and column, and the number, or why there is none.

    `row` and `column` are "" from where the search ended. `why` is "" if there is a number.
    """

    row: str
    column: str
    number: Value | None
    why: str = ""


class _Comparer:
    """Compares a published table with a leaderboard, or with nothing."""

    def __init__(self, table: PublishedTable, leaderboard: Leaderboard | None) -> None:
        self.table, self.leaderboard = table, leaderboard
        self._tables = {table.id: table for table in leaderboard.tables} if leaderboard else {}
        self._settings = dict[tuple[object, ...], tuple[str, ...]]()

    def series(self) -> Iterator[Series]:
        """Yield the published numbers that point to ours, each beside ours, quantity by quantity."""
        if self.table.matrix:
            yield self._mean_wins()
            return
        by_series: dict[str, list[_Number]] = {}
        for number in self._numbers():
            if number.row.ours and number.column.ours and number.printed.value is not None:
                by_series.setdefault(number.series, []).append(number)
        for label, numbers in by_series.items():
            spread = _spread([number for number in numbers if number.entry.entry])
            cells = tuple(replace(self._cell(number), spread=spread) for number in numbers)
            ranked = [cell for cell, number in zip(cells, numbers, strict=True) if number.entry.entry]
            quantity = numbers[0].quantity
            yield Series(label, quantity.label, numbers[0].our_table, cells, _order(ranked), quantity.note)

    def _numbers(self) -> list[_Number]:
        """Return the numbers of the published table: column by column if rows are entries, else row by row."""
        rows, columns = self.table.rows, self.table.columns
        positions = [(row, i) for row in rows for i in range(len(columns))]
        if self.table.entries == "rows":
            positions = [(row, i) for i in range(len(columns)) for row in rows]
        return [_Number(row, columns[i], row.values[i], self.table) for row, i in positions]

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
        ours = self._ours(published)
        if ours.number is None:
            return replace(bare, missing=ours.why)
        to_row, to_column = published.pointers
        itself = [*entry_differs(self.table, to_row, ours.row), *entry_differs(self.table, to_column, ours.column)]
        itself += ["times depend on the machine"] if published.column.hardware else []
        table = self._tables[published.our_table]
        spec = next(column for column in table.columns if ours.column in (column.key, column.label))
        if PROXY in f"{spec.label} {spec.description}":
            itself.append(f"ours is of a {PROXY}, not of people")
        return replace(
            bare, ours=ours.number, label=ours.row, setting=self._setting(published.row), itself=tuple(itself)
        )

    def _setting(self, row: PublishedRow) -> tuple[str, ...]:
        """Return how our setting differs from that of a row; rows with the same setting are compared only once."""
        data, over = row.data or self.table.data, row.over or self.table.over
        key = (tuple(data), tuple((kind, tuple(pointers)) for kind, pointers in over.items()))
        if key not in self._settings:
            self._settings[key] = settings_differ(self.table, self.leaderboard, data, over)
        return self._settings[key]

    def _ours(self, published: _Number) -> _Ours:
        """Return our number for a published one: its row by label, its column by key or else by label."""
        table = self._tables.get(published.our_table)
        if table is None:
            return _Ours("", "", None, self._no_table(published.our_table))
        to_row, to_column = published.pointers
        row, why = match(to_row, [candidate.label for candidate in table.rows])
        if row is None:
            return _Ours("", "", None, why)
        key_of = {column.key: column.key for column in table.columns}
        column, _ = match(to_column, list(key_of))
        if column is None:
            key_of = {column.label: column.key for column in table.columns}
            column, why = match(to_column, list(key_of))
        if column is None:
            return _Ours(row, "", None, f"column {why}")
        values = next(candidate.values for candidate in table.rows if candidate.label == row)
        value = values.get(key_of[column])
        if value is None or value.value is None:
            return _Ours(row, column, None, (value.missing if value else "") or "no number")
        return _Ours(row, column, value)

    def _no_table(self, id: str) -> str:
        return f"no table {id!r}" if self.leaderboard else f"no tables of {self.table.track}"

    def _mean_wins(self) -> Series:
        """Return how often each entry of a table of who beats whom beats the others, in %, beside ours.

        A mean is over the opponents that both tables have. The note of the quantity says how many of the single cells
        agree.
        """
        label, table = "mean share of wins, %", self._tables.get(self.table.matrix)
        our_labels = [row.label for row in table.rows] if table else []
        our_label = {row.label: match(row.ours, our_labels)[0] for row in self.table.rows}
        in_both = [i for i, row in enumerate(self.table.rows) if our_label[row.label] is not None]
        printed = np.array([[np.nan if v.value is None else v.value for v in row.values] for row in self.table.rows])
        their_shares = printed[np.ix_(in_both, in_both)]
        our_shares, counts, note = np.zeros((0, 0)), np.zeros((0, 0)), ""
        if table:
            our_shares, counts = _grid(table, [str(our_label[self.table.rows[i].label]) for i in in_both])
            note = _single_cells(their_shares, our_shares, counts)
        their_means = dict(zip(in_both, _row_means(their_shares), strict=True))  # position of a row -> mean
        our_means = dict(zip(in_both, _row_means(our_shares), strict=True)) if table else {}
        setting = settings_differ(self.table, self.leaderboard, self.table.data, self.table.over)
        cells = []
        for i, row in enumerate(self.table.rows):
            has_both = i in our_means and not np.isnan([our_means[i], their_means[i]]).any()
            published = float(their_means[i]) if has_both else float(np.nanmean(printed[i]))
            bare = Cell(
                row.label,
                published,
                f"{published:.2f}",
                HALF_DIGIT,
                note=row.note,
                otherwise=computed_otherwise(self.table, row),
                ask=ask_of(self.table, row),
            )
            if has_both:
                cell = replace(
                    bare,
                    ours=Value(value=float(our_means[i])),
                    label=str(our_label[row.label]),
                    setting=setting,
                    itself=("of mean shares of wins only the order is compared",),
                )
            elif table is None:
                cell = replace(bare, missing=self._no_table(self.table.matrix))
            elif i not in our_means:
                cell = replace(bare, missing=f"{row.ours} is not there")
            else:
                cell = replace(bare, missing="no opponent of it is there")
            cells.append(cell)
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
    """Return from a table of who beats whom the shares of wins, in %, and the numbers of conditions behind them.

    Both are ``(k, k)`` for k `labels`, which name rows and columns; NaN stands where the table has no number.
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
    in_both = ~np.isnan(printed) & ~np.isnan(shares) & ~np.isnan(counts)
    if not in_both.any():
        return ""
    inside = 0
    for published, share, n in zip(printed[in_both], shares[in_both], counts[in_both], strict=True):
        interval = scipy.stats.binomtest(round(share / 100 * n), int(n)).proportion_ci(method="wilson")
        inside += 100 * interval.low - HALF_DIGIT <= published <= 100 * interval.high + HALF_DIGIT
    pairs = np.triu(in_both & in_both.T, 1)
    their_winner, our_winner = (np.sign(grid - grid.T)[pairs] for grid in (printed, shares))  # 1: row, -1: column
    decided = (their_winner != 0) & (our_winner != 0)
    return (
        f"Of {in_both.sum()} single cells, {inside} agree: the published share lies in the 95 % interval of ours. Of "
        f"{decided.sum()} pairs in which both tables have a winner, "
        f"{(their_winner == our_winner)[decided].sum()} have the same one."
    )


def _row_means(grid: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean of each row ``(k,)`` without NaN, or NaN if a row has no number."""
    present = ~np.isnan(grid)
    counts = present.sum(axis=1)
    return np.where(counts > 0, np.where(present, grid, 0.0).sum(axis=1) / np.maximum(counts, 1), np.nan)
