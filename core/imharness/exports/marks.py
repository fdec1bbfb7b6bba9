"""Marks numbers of a table, by one rule for papers, spreadsheets, programs and the site.

A number is ``best`` if no entry that can win has a better one in its column, and ``tied`` if it is not the best and the
intervals behind the column do not show the best to be better. Controls and incomplete entries are never the best.
Nothing is marked while cells are waiting, and in columns of fewer independent units than an interval needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from imharness.ranking.ranking import ranked
from imharness.results.boards import Board
from imharness.results.rankings import Place, Ranking
from imharness.results.tables import ColumnSpec, Row, Table, several
from imharness.statistics.clusters import FEWEST

Mark = Literal["", "best", "tied"]


class Marks:
    """The marks of a table. Its `board` tells controls, incomplete entries and how far the run was."""

    def __init__(self, table: Table, board: Board | None = None) -> None:
        self.table, self.waiting = table, bool(board and board.waiting)
        found = (own for own in (board.rankings if board else ()) if own.table == table.id)
        self.ranking: Ranking | None = next(found, None)
        self._eligible = [row for row in table.rows if _can_win(self.place(row))]
        self._eligible_ids = {id(row) for row in self._eligible}
        self._tops = dict[str, float | None]()

    def of(self, row: Row, column: ColumnSpec) -> Mark:
        """Return the mark of a number of this table."""
        value = row.values.get(column.key)
        if value is None or value.value is None or self.waiting or self.is_few(column):
            return ""
        if id(row) in self._eligible_ids and value.value == self.best(column):
            return "best"
        return "tied" if row.label in self.table.not_worse.get(column.key, ()) else ""

    def best(self, column: ColumnSpec) -> float | None:
        """Return the best number of a column, or None if it is empty or has no better direction."""
        if column.key not in self._tops:
            first = ranked(self._eligible, column)[:1] if column.better else []
            value = first[0].values.get(column.key) if first else None
            self._tops[column.key] = value.value if value is not None else None
        return self._tops[column.key]

    def won(self, row: Row) -> bool:
        """Return whether a row is the winner's."""
        return bool(self.ranking and not self.waiting and row.label == self.ranking.winner)

    def place(self, row: Row) -> Place | None:
        """Return the place of a row in the table's ranking, or None if there is no ranking or the row is not in it."""
        return self.ranking.places.get(row.label) if self.ranking else None

    def is_few(self, column: ColumnSpec) -> bool:
        """Return whether a column's numbers come from too few units; without counts, the other columns decide."""
        known = [self._most[column.key]] if column.key in self._most else list(self._most.values())
        return bool(known) and max(count for count, _ in known) < FEWEST

    def few(self, columns: Sequence[ColumnSpec]) -> str:
        """Return a sentence on the columns without marks because their numbers come from too few units, or ""."""
        left = [column for column in columns if column.better and not self.waiting and self.is_few(column)]
        if not left:
            return ""
        counts = dict.fromkeys(self._most[own.key][1] for own in left if own.key in self._most)
        here = ", ".join(counts or dict.fromkeys(text for _, text in self._most.values()))
        every = len(left) == sum(bool(own.better) for own in columns)
        what = "Nothing" if every else f"No number of {'; '.join(own.label for own in left)}"
        return f"{what} is marked: {here}, and an interval needs at least {FEWEST}."

    def untested(self, columns: Sequence[ColumnSpec]) -> list[str]:
        """Return the labels of columns in which the best is marked, and nothing is known of the others."""
        return [own.label for own in columns if self.best(own) is not None and own.key not in self.table.not_worse]

    @cached_property
    def _most(self) -> dict[str, tuple[int, str]]:
        return {own.key: most for own in self.table.columns if (most := _most_of(self.table, own))}


def places_of(table: Table, board: Board) -> dict[str, Place]:
    """Return what the rankings of a board state of the rows of a table; its own ranking comes before others."""
    own_first = sorted(board.rankings, key=lambda own: own.table != table.id)
    known: dict[str, Place] = {}
    for ranking in own_first:
        for label, place in ranking.places.items():
            known.setdefault(label, place)
    return {row.label: known[row.label] for row in table.rows if row.label in known}


def standing_in(table: Table, board: Board | None) -> dict[str, list[str]]:
    """Return columns with what no number of a row says: control, gate, incomplete, flags, and the proxies of the board.

    Columns in which nothing is said are left out.
    """
    if board is None:
        return {}
    places, proxies = places_of(table, board), "; ".join(proxies_of(board))
    rows = [places.get(row.label) for row in table.rows]
    found = {
        "control": [place.control if place else "" for place in rows],
        "gate": [place.gate if place else "" for place in rows],
        "incomplete": ["incomplete" if place and not place.complete else "" for place in rows],
        "flags": ["; ".join(place.flags) if place else "" for place in rows],
        "proxies": [proxies for _ in rows],
    }
    return {name: column for name, column in found.items() if any(column)}


def proxies_of(board: Board) -> list[str]:
    """Return what stands in for human judgement, real data or trained networks on a board, each once."""
    return list(dict.fromkeys(proxy for ranking in board.rankings for proxy in ranking.proxies))


def standing_of(place: Place) -> str:
    """Return what a ranking states of an entry beside its numbers; empty where nothing keeps it from winning."""
    found = [f"control: {place.control}"] if place.control else []
    found += [] if place.complete else ["incomplete"]
    found += [] if place.able or place.control else [f"gate: {place.gate}"]
    return "; ".join([*found, *(f"flagged: {flag}" for flag in place.flags)])


def _most_of(table: Table, column: ColumnSpec) -> tuple[int, str] | None:
    """Return the largest number of independent units behind a number of a column, and the same in words."""
    values = [value for row in table.rows if (value := row.values.get(column.key)) and value.value is not None]
    unit, source = column.unit or "unit", column.cluster_unit or "source"
    counts = [(own.n, unit) if own.clusters is None else (own.clusters, source) for own in values]
    return max(((count, several(count, what)) for count, what in counts if count is not None), default=None)


def _can_win(place: Place | None) -> bool:
    return place is None or (place.complete and not place.control)
