"""Marks numbers of a table as ``best`` or ``tied``, by one rule for papers, spreadsheets, programs and the site.

A number is ``best`` if no entry that can win has a better one in its column. Another number is ``tied`` if the
intervals behind the column do not show that the best one is better. Controls and entries that cannot win are never the
best. Nothing is marked while tasks are waiting, or in columns from fewer independent units than an interval needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from imharness.documents.entries import NOT_JUDGED
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Place, Ranking
from imharness.documents.tables import ColumnSpec, Row, Table, several
from imharness.ranking.headline import BARS
from imharness.ranking.ranking import ranked
from imharness.statistics.clusters import FEWEST

Mark = Literal["", "best", "tied"]


class _Count(NamedTuple):
    """A number of independent units, and the same in words, such as "12 photographs"."""

    number: int
    text: str


class Marks:
    """The marks of a table. Its `leaderboard` tells controls, incomplete entries and how far the run was."""

    def __init__(self, table: Table, leaderboard: Leaderboard | None = None) -> None:
        self.table, self.waiting = table, bool(leaderboard and leaderboard.waiting)
        rankings = (ranking for ranking in (leaderboard.rankings if leaderboard else ()) if ranking.table == table.id)
        self.ranking: Ranking | None = next(rankings, None)
        self._eligible = [row for row in table.rows if _can_win(self.place(row))]
        self._eligible_ids = {id(row) for row in self._eligible}
        self._best_of = dict[str, float | None]()
        """Key of a column -> its best number, for columns that were asked for."""

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
        if column.key not in self._best_of:
            first = ranked(self._eligible, column)[:1] if column.better else []
            value = first[0].values.get(column.key) if first else None
            self._best_of[column.key] = value.value if value is not None else None
        return self._best_of[column.key]

    def won(self, row: Row) -> bool:
        """Return whether a row is the winner's."""
        return bool(self.ranking and not self.waiting and row.label == self.ranking.winner)

    def place(self, row: Row) -> Place | None:
        """Return the place of a row in the table's ranking, or None if there is no ranking or the row is not in it."""
        return self.ranking.places.get(row.label) if self.ranking else None

    def is_few(self, column: ColumnSpec) -> bool:
        """Return whether a column's numbers come from too few independent units for an interval.

        For a column without counts, the other columns of the table decide.
        """
        counts = [self._counts[column.key]] if column.key in self._counts else list(self._counts.values())
        return bool(counts) and max(count.number for count in counts) < FEWEST

    def few(self, columns: Sequence[ColumnSpec]) -> str:
        """Return a sentence on the columns without marks because their numbers come from too few units, or ""."""
        if self.waiting:
            return ""
        directed = [column for column in columns if column.better]
        unmarked = [column for column in directed if self.is_few(column)]
        if not unmarked:
            return ""
        texts = dict.fromkeys(self._counts[column.key].text for column in unmarked if column.key in self._counts)
        counts = ", ".join(texts or dict.fromkeys(count.text for count in self._counts.values()))
        labels = "; ".join(column.label for column in unmarked)
        what = "Nothing" if len(unmarked) == len(directed) else f"No number of {labels}"
        return f"{what} is marked: {counts}, and an interval needs at least {FEWEST}."

    def untested(self, columns: Sequence[ColumnSpec]) -> list[str]:
        """Return the labels of columns with a best number whose other numbers were not compared with it."""
        return [
            column.label
            for column in columns
            if self.best(column) is not None and column.key not in self.table.not_worse
        ]

    @cached_property
    def _counts(self) -> dict[str, _Count]:
        """Key of a column -> the largest count behind one of its numbers, for columns that have counts."""
        counts = {column.key: _largest_count(self.table, column) for column in self.table.columns}
        return {key: count for key, count in counts.items() if count is not None}


def places_of(table: Table, leaderboard: Leaderboard) -> dict[str, Place]:
    """Return label -> place for the rows of a table: in the table's own ranking, or else in the first that has it."""
    own_first = sorted(leaderboard.rankings, key=lambda ranking: ranking.table != table.id)
    standings: dict[str, Place] = {}
    for ranking in own_first:
        for label, standing in ranking.places.items():
            standings.setdefault(label, standing)
    return {row.label: standings[row.label] for row in table.rows if row.label in standings}


def standing_in(table: Table, leaderboard: Leaderboard | None) -> dict[str, list[str]]:
    """Return further columns of a table, name -> a text for each row; columns without any text are left out.

    They are ``control`` (what control the row is), ``gate`` (whether it keeps what a winner must), ``incomplete``,
    ``flags`` (why it is not to be trusted) and ``proxies`` (those of the leaderboard, the same in each row).
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
    """Return in words what keeps an entry from winning: control, incomplete, gate, flags; "" if nothing does."""
    remarks = [f"control: {standing.control}"] if standing.control else []
    remarks += [] if standing.complete else ["incomplete"]
    remarks += [] if standing.able or standing.control else [BARS[standing.gate][0]]
    return "; ".join(
        [*remarks, *(flag if flag.startswith(NOT_JUDGED) else f"flagged: {flag}" for flag in standing.flags)]
    )


def _largest_count(table: Table, column: ColumnSpec) -> _Count | None:
    """Return the largest number of independent units behind a number of a column; None if no number has a count."""
    unit, source = column.unit or "unit", column.cluster_unit or "source"
    counts = list[_Count]()
    for row in table.rows:
        value = row.values.get(column.key)
        if value is None or value.value is None:
            continue
        number, what = (value.n, unit) if value.clusters is None else (value.clusters, source)
        if number is not None:
            counts.append(_Count(number, several(number, what)))
    return max(counts, default=None)


def _can_win(standing: Place | None) -> bool:
    return standing is None or standing.eligible
