"""What an entry's page shows: the facts about a component, or about a row made of several, and all its scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from imharness.results.records import Board, ColumnSpec, Entry, Row, Table
from imharness_leaderboard.addresses import entry_page
from imharness_leaderboard.conditions import CONDITIONS
from imharness_leaderboard.gallery import GalleryExample

Rival = tuple[str, float | None, float | None]
"""Another entry's label, and the shares of conditions won and lost against it, %."""


@dataclass
class Appearance:
    """What a track's tables and gallery hold about an entry.

    `columns` are those that are named after it, `rivals` its wins and losses against each other entry.
    """

    board: Board
    rows: list[tuple[Table, Row]] = field(default_factory=list)
    conditions: list[tuple[Table, list[Row]]] = field(default_factory=list)
    columns: list[tuple[Table, ColumnSpec]] = field(default_factory=list)
    rivals: list[tuple[Table, list[Rival]]] = field(default_factory=list)
    images: list[GalleryExample] = field(default_factory=list)


@dataclass
class EntryView:
    """An entry's page. `facts` is None for a row made of several components; `parts` then names them."""

    kind: str
    label: str
    page: str
    facts: Entry | None
    parts: list[tuple[str, str]] = field(default_factory=list)
    appearances: list[Appearance] = field(default_factory=list)


def standing_word(entry: Entry | None) -> str:
    """Return the status of a submitted entry: ``submitted``, ``flagged``, ``withdrawn``, ``reproduced`` or the like.

    Empty for an entry that was not submitted. A flag stays until the entry is scored again or withdrawn.
    """
    word = ""
    for decided in entry.standing if entry is not None else ():
        if decided.decision in ("added", "re-scored"):
            word = "submitted"
        elif word != "flagged" or decided.decision == "withdrawn":
            word = decided.decision
    return word


def entry_views(boards: Sequence[Board], gallery: dict[str, list[GalleryExample]]) -> dict[tuple[str, str], EntryView]:
    """Return the entries of all boards, by kind and label."""
    views: dict[tuple[str, str], EntryView] = {}
    for board in boards:
        for view in _entries(board):
            known = views.setdefault((view.kind, view.label), view)
            known.appearances.append(_appearance(board, view.label, gallery.get(board.track, [])))
    return views


def _entries(board: Board) -> Iterator[EntryView]:
    """Yield the components of a board, then the rows of its main table that are made of several."""
    kinds = {entry.label: entry.kind for entry in board.entries}
    for entry in board.entries:
        yield EntryView(entry.kind, entry.label, entry_page(entry.kind, entry.label), entry)
    for main in board.tables[:1]:
        for row in main.rows:
            if row.label not in kinds:
                parts = [(kinds[part], part) for part in row.label.split(" + ") if part in kinds]
                yield EntryView(main.entry, row.label, entry_page(main.entry, row.label), None, parts)


def _appearance(board: Board, label: str, images: Sequence[GalleryExample]) -> Appearance:
    found = Appearance(board, images=[image for image in images if image.example.entry == label])
    compared = {comparison.id for comparison in board.comparisons}
    for table in board.tables:
        own = [row for row in table.rows if row.label == label]
        if table.id.startswith(CONDITIONS):
            found.conditions += [(table, own)] if own else []
        elif own and table.id in compared:
            found.rivals.append((table, _rivals(table, own[0])))
        else:
            found.rows += [(table, row) for row in own]
            found.columns += [(table, column) for column in table.columns if column.label == label]
    return found


def _rivals(table: Table, row: Row) -> list[Rival]:
    """Return the wins and losses of a row of a win-rate table, whose columns are the same entries as its rows."""
    rows = {other.label: other for other in reversed(table.rows)}
    own_key = {column.label: column.key for column in table.columns}.get(row.label, "")
    found = []
    for column in table.columns:
        if column.label != row.label:
            other = rows.get(column.label)
            won, lost = row.values.get(column.key), other.values.get(own_key) if other else None
            found.append((column.label, won.value if won else None, lost.value if lost else None))
    return found
