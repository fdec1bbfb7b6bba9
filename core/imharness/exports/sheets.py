"""Turns a table of a leaderboard into a sheet: the text of each cell, the marked numbers, and the notes below.

Every writer of this package works from a sheet, so that all formats say the same. Nothing here is escaped.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from imharness.documents.findings import Finding
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Place
from imharness.documents.tables import ColumnSpec, Row, Table, Value, joined, several
from imharness.errors import UsageError, did_you_mean
from imharness.exports.marks import Mark, Marks, places_of, proxies_of, standing_in
from imharness.results.labels import printed

ARROWS = {"higher": "↑", "lower": "↓", "": ""}
NONE = "–"
"""The text of a cell without a number."""


@dataclass(frozen=True)
class Cell:
    """A number as text, with the ends of its 95% interval ("" without one), its mark and the letters of its notes."""

    text: str
    low: str = ""
    high: str = ""
    mark: Mark = ""
    notes: tuple[str, ...] = ()
    value: Value | None = None

    @property
    def best(self) -> bool:
        """Whether it is marked as the best; see `imharness.exports.marks`."""
        return self.mark == "best"

    @property
    def tied(self) -> bool:
        """Whether it is marked as not shown to be worse than the best."""
        return self.mark == "tied"


@dataclass(frozen=True)
class Line:
    """A row: its name, the facets that distinguish it from rows of the same name, its cells, whether it has won."""

    label: str
    facets: tuple[str, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    won: bool = False

    @property
    def name(self) -> str:
        """The label as it is printed."""
        return printed(self.label)


@dataclass(frozen=True)
class Sheet:
    """A table that is ready to be written.

    `notes` are pairs of a letter and a sentence; `remarks` are sentences on the whole table. `claim` and `findings` are
    those of the ranking that the table has, if any. `standing` has further columns, name -> a text for each row, such
    as whether it is a control (see `imharness.exports.marks.standing_in`). `proxies` is what stands in for something
    real on the leaderboard.
    """

    id: str
    track: str
    title: str
    caption: str
    entry: str
    facets: tuple[str, ...]
    columns: tuple[ColumnSpec, ...]
    lines: tuple[Line, ...]
    notes: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]
    table: Table
    claim: str = ""
    findings: tuple[Finding, ...] = ()
    standing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    proxies: tuple[str, ...] = ()

    @property
    def heads(self) -> tuple[str, ...]:
        """The header of each column of numbers, with an arrow in the better direction."""
        return tuple(f"{printed(column.label)} {ARROWS[column.better]}".strip() for column in self.columns)


def chosen_tables(leaderboards: Sequence[Leaderboard], names: Sequence[str]) -> list[tuple[Leaderboard, Table]]:
    """Return the tables with these ids and the leaderboard of each, or each main table if no name is given.

    Raises `UsageError` for a name that no leaderboard has.
    """
    if not names:
        return [(leaderboard, leaderboard.tables[0]) for leaderboard in leaderboards if leaderboard.tables]
    table_ids = list(dict.fromkeys(table.id for leaderboard in leaderboards for table in leaderboard.tables))
    for name in names:
        if name not in table_ids:
            listing = "; ".join(
                f"{leaderboard.track}: {', '.join(table.id for table in leaderboard.tables)}"
                for leaderboard in leaderboards
            )
            raise UsageError(f"no table is called {name!r}.{did_you_mean(name, table_ids)} Tables by track: {listing}.")
    return [
        (leaderboard, table)
        for leaderboard in leaderboards
        for name in names
        for table in leaderboard.tables
        if table.id == name
    ]


def sheet_of(
    table: Table, leaderboard: Leaderboard | None = None, *, columns: Sequence[str] = (), caption: str = ""
) -> Sheet:
    """Return a table as a sheet.

    Args:
        table: the table.
        leaderboard: its leaderboard, which tells controls, incomplete entries and how far the run was.
        columns: keys or labels of the wanted columns in order; one text may hold several, separated by commas. By
            default all columns.
        caption: a caption instead of the table's own.

    Raises:
        UsageError: the table does not have a wanted column.
    """
    specs = _wanted(table, columns)
    marks = Marks(table, leaderboard)
    writer = _Lines(table, places_of(table, leaderboard) if leaderboard else {}, marks)
    lines = tuple(writer.line(row, specs) for row in table.rows)
    few = marks.few(specs)
    ranking = (
        next((candidate for candidate in leaderboard.rankings if candidate.table == table.id), None)
        if leaderboard
        else None
    )
    own_caption = f"{table.title.rstrip('.')}. {table.caption}".strip()
    return Sheet(
        id=table.id,
        track=leaderboard.track if leaderboard else "",
        title=table.title,
        caption=caption or own_caption,
        entry=table.entry,
        facets=writer.facets,
        columns=specs,
        lines=lines,
        notes=tuple((letter, text) for text, letter in writer.letters.items()),
        remarks=(*_remarks(table, leaderboard, specs, lines), *([few] if few else [])),
        table=table,
        claim=ranking.claim if ranking else "",
        findings=ranking.findings if ranking else (),
        standing=standing_in(table, leaderboard),
        proxies=tuple(proxies_of(leaderboard)) if leaderboard else (),
    )


def _wanted(table: Table, names: Sequence[str]) -> tuple[ColumnSpec, ...]:
    """Return the columns with these keys or labels, or all; raises as `sheet_of` does."""
    by_name = {column.label: column for column in table.columns} | {column.key: column for column in table.columns}
    wanted = list[str]()
    for text in names:  # a label may have a comma itself
        wanted += [text] if text in by_name else [word.strip() for word in text.split(",")]
    for name in wanted:
        if name not in by_name:
            choices = ", ".join(
                column.key if column.key == column.label else f"{column.key} ({column.label})"
                for column in table.columns
            )
            hint = did_you_mean(name, by_name)
            raise UsageError(f"table {table.id} has no column {name!r}.{hint} It has: {choices}.")
    return tuple(by_name[name] for name in wanted) if wanted else table.columns


class _Lines:
    """Writes the rows of a table, and gives each note a letter in the order in which the notes occur."""

    def __init__(self, table: Table, places: Mapping[str, Place], marks: Marks) -> None:
        self.letters: dict[str, str] = {}
        self._places, self._marks = places, marks
        labels = [row.label for row in table.rows]
        named = dict.fromkeys(name for row in table.rows for name in row.facets)
        self.facets = tuple(named) if len(set(labels)) < len(labels) else ()

    def line(self, row: Row, columns: Iterable[ColumnSpec]) -> Line:
        notes = tuple(self._letter(text) for text in self._said_of(self._places.get(row.label)))
        facets = tuple(row.facets.get(name, "") for name in self.facets)
        return Line(
            row.label, facets, tuple(self._cell(row, column) for column in columns), notes, self._marks.won(row)
        )

    def _said_of(self, standing: Place | None) -> Iterable[str]:
        """Yield the notes on a row: why its entry cannot win, or is only an upper bound."""
        if standing is None:
            return
        if standing.control:
            yield f"Control ({standing.control}): measured for comparison, never the winner."
        if not standing.complete:
            yield "Incomplete: not measured in every setting, and without a rank."
        if not standing.able:
            yield f"Cannot win: {_why_barred(standing)}."
        yield from (f"Its protection is only an upper bound: {flag}." for flag in standing.flags)

    def _cell(self, row: Row, column: ColumnSpec) -> Cell:
        value = row.values.get(column.key)
        if value is None or value.value is None or math.isnan(value.value):
            reason = value.missing if value is not None and value.missing else "not measured"
            return Cell(NONE, notes=(self._letter(f"No number: {reason.rstrip('.')}."),), value=value)
        low, high = ("" if end is None else column.text(end) for end in (value.low, value.high))
        mark = self._marks.of(row, column)
        has_interval = low and high
        return Cell(
            column.text(value.value),
            low if has_interval else "",
            high if has_interval else "",
            mark=mark,
            value=value,
        )

    def _letter(self, text: str) -> str:
        return self.letters.setdefault(text, _letters(len(self.letters)))


def _why_barred(standing: Place) -> str:
    """Say why an entry fails its gate, as in "it does not keep test accuracy, within 5% of no defense"."""
    measures = [measure for measure in standing.gate_numbers if measure.state == standing.gate]
    if not measures:
        return "it was not measured"
    words = {
        "fails": "it does not keep",
        "doubtful": "tested alone it does not keep",
        "not measured": "not measured on every unit, or not defined without one:",
    }
    return f"{words[standing.gate]} {' and '.join(f'{measure.label}, {measure.least}' for measure in measures)}"


def _letters(position: int) -> str:
    """Return the letter of a position: a, b, ..., z, A, ..., Z, and then a1, b1 and so on."""
    turn, index = divmod(position, len(string.ascii_letters))
    return string.ascii_letters[index] + (str(turn) if turn else "")


def _remarks(
    table: Table, leaderboard: Leaderboard | None, columns: Sequence[ColumnSpec], lines: Sequence[Line]
) -> Iterable[str]:
    cells = [cell for line in lines for cell in line.cells]
    legend = []
    if any(column.better for column in columns):
        legend.append("Arrows point to better numbers.")
    if any(cell.best for cell in cells):
        ranked_here = leaderboard is not None and any(ranking.table == table.id for ranking in leaderboard.rankings)
        apart = ", apart from controls and entries that cannot win" if ranked_here else ""
        legend.append(f"Bold: the best number of a column{apart}.")
    if any(cell.tied for cell in cells):
        untested = Marks(table, leaderboard).untested(columns)
        legend.append(
            f"*: not shown to be worse than the best{f'; not tested: {joined(untested)}' if untested else ''}."
        )
    if any(cell.low for cell in cells):
        legend.append("Brackets: 95% intervals.")
    yield from [" ".join(legend)] if legend else []
    yield from _counts(columns, lines)
    yield from [table.note.rstrip(".") + "."] if table.note else []
    yield from _state(leaderboard) if leaderboard else ()


def _counts(columns: Sequence[ColumnSpec], lines: Sequence[Line]) -> Iterable[str]:
    """Yield how many units are behind the numbers of each column; columns with the same counts come together."""
    groups: dict[str, list[str]] = {}
    for position, column in enumerate(columns):
        values = [line.cells[position].value for line in lines]
        sizes = sorted({value.n for value in values if value is not None and value.n is not None})
        if not column.unit or not sizes:
            continue
        texts = {column.count(value) for value in values if value is not None and value.n is not None}
        text = texts.pop() if len(texts) == 1 else f"{sizes[0]} to {several(sizes[-1], column.unit)}"
        groups.setdefault(text, []).append(column.label)
    for text, labels in groups.items():
        yield f"n of {'; '.join(labels)}: {text}."


def _state(leaderboard: Leaderboard) -> Iterable[str]:
    """Yield what readers must know about the run: what is missing, and its settings."""
    if proxies := proxies_of(leaderboard):
        yield f"Proxies: {'; '.join(proxies)}; do not cite."
    if leaderboard.waiting:
        total = leaderboard.tasks_done + leaderboard.waiting
        yield f"Not finished: {leaderboard.tasks_done:,} of {total:,} tasks; nothing is marked."
    if leaderboard.tasks_failed:
        yield f"{several(leaderboard.tasks_failed, 'task')} failed."
    if leaderboard.tasks_missing:
        yield f"{several(leaderboard.tasks_missing, 'part')} of the run could not be computed."
    if leaderboard.stale:
        yield f"Outdated: {leaderboard.stale.rstrip('.')}."
    images = (
        "all images" if leaderboard.limit is None else f"at most {several(leaderboard.limit, 'image')} of each data set"
    )
    yield (
        f"{leaderboard.title}, profile {leaderboard.profile}, seed {leaderboard.seed}, {images}; "
        f"{leaderboard.finished}."
    )
