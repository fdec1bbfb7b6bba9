"""Marks numbers of a table, by one rule for papers, spreadsheets, programs and the site.

A number is ``best`` if no entry that can win has a better one in its column, and ``tied`` if it is not the best and the
intervals behind the column do not show the best to be better. Controls and entries that cannot win are never the best.
Nothing is marked while tasks are waiting, and in columns of fewer independent units than an interval needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from imharness.ranking.headline import BARS
from imharness.ranking.ranking import ranked
from imharness.results.entries import NOT_JUDGED
from imharness.results.leaderboards import Leaderboard
from imharness.results.rankings import Place, Ranking
from imharness.results.tables import ColumnSpec, Row, Table, several
from imharness.statistics.clusters import FEWEST

Mark = Literal["", "best", "tied"]


class Marks:
    """The marks of a table. Its `leaderboard` tells controls, incomplete entries and how far the run was."""

    def __init__(self, table: Table, leaderboard: Leaderboard | None = None) -> None:
        self.table, self.waiting = table, bool(leaderboard and leaderboard.waiting)
        rankings = (ranking for ranking in (leaderboard.rankings if leaderboard else ()) if ranking.table == table.id)
        self.ranking: Ranking | None = next(rankings, None)
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
        counts = [self._most[column.key]] if column.key in self._most else list(self._most.values())
        return bool(counts) and max(count for count, _ in counts) < FEWEST

    def few(self, columns: Sequence[ColumnSpec]) -> str:
        """Return a sentence on the columns without marks because their numbers come from too few units, or ""."""
        small_columns = [column for column in columns if column.better and not self.waiting and self.is_few(column)]
        if not small_columns:
            return ""
        counts = dict.fromkeys(self._most[column.key][1] for column in small_columns if column.key in self._most)
        here = ", ".join(counts or dict.fromkeys(text for _, text in self._most.values()))
        every = len(small_columns) == sum(bool(column.better) for column in columns)
        what = "Nothing" if every else f"No number of {'; '.join(column.label for column in small_columns)}"
        return f"{what} is marked: {here}, and an interval needs at least {FEWEST}."

    def untested(self, columns: Sequence[ColumnSpec]) -> list[str]:
        """Return the labels of columns in which the best is marked, and nothing is known of the others."""
        return [
            column.label
            for column in columns
            if self.best(column) is not None and column.key not in self.table.not_worse
        ]

    @cached_property
    def _most(self) -> dict[str, tuple[int, str]]:
        return {column.key: most for column in self.table.columns if (most := _most_of(self.table, column))}


def places_of(table: Table, leaderboard: Leaderboard) -> dict[str, Place]:
    """Return what the rankings of a leaderboard state of the rows of a table; its own ranking comes before others."""
    own_first = sorted(leaderboard.rankings, key=lambda ranking: ranking.table != table.id)
    standings: dict[str, Place] = {}
    for ranking in own_first:
        for label, standing in ranking.places.items():
            standings.setdefault(label, standing)
    return {row.label: standings[row.label] for row in table.rows if row.label in standings}


def standing_in(table: Table, leaderboard: Leaderboard | None) -> dict[str, list[str]]:
    """Return columns with what no number of a row says: control, gate, incomplete, flags, the leaderboard's proxies.

    Columns in which nothing is said are left out.
    """
    if leaderboard is None:
        return {}
    places, proxies = places_of(table, leaderboard), "; ".join(proxies_of(leaderboard))
    rows = [places.get(row.label) for row in table.rows]
    marks = {
        "control": [standing.control if standing else "" for standing in rows],
        "gate": [standing.gate if standing else "" for standing in rows],
        "incomplete": ["incomplete" if standing and not standing.complete else "" for standing in rows],
        "flags": ["; ".join(standing.flags) if standing else "" for standing in rows],
        "proxies": [proxies for _ in rows],
    }
    return {name: column for name, column in marks.items() if any(column)}


def proxies_of(leaderboard: Leaderboard) -> list[str]:
    """Return what stands in for human judgement, real data or trained networks on a leaderboard, each once."""
    return list(dict.fromkeys(proxy for ranking in leaderboard.rankings for proxy in ranking.proxies))


def standing_of(standing: Place) -> str:
    """Return what a ranking states of an entry beside its numbers; empty where nothing keeps it from winning."""
    remarks = [f"control: {standing.control}"] if standing.control else []
    remarks += [] if standing.complete else ["incomplete"]
    remarks += [] if standing.able or standing.control else [BARS[standing.gate][0]]
    return "; ".join(
        [*remarks, *(flag if flag.startswith(NOT_JUDGED) else f"flagged: {flag}" for flag in standing.flags)]
    )


def _most_of(table: Table, column: ColumnSpec) -> tuple[int, str] | None:
    """Return the largest number of independent units behind a number of a column, and the same in words."""
    values = [value for row in table.rows if (value := row.values.get(column.key)) and value.value is not None]
    unit, source = column.unit or "unit", column.cluster_unit or "source"
    counts = [(value.n, unit) if value.clusters is None else (value.clusters, source) for value in values]
    return max(((count, several(count, what)) for count, what in counts if count is not None), default=None)


def _can_win(standing: Place | None) -> bool:
    return standing is None or standing.eligible
