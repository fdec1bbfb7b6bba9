"""An entry's page: what is known of a component, or of a row that several components make, and all its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from imharness.results.records import Board, ColumnSpec, Entry, Row, Table
from imharness_leaderboard.gallery import Shown
from imharness_leaderboard.naming import entry_page

CONDITIONS = "conditions-"


@dataclass
class Appearance:
    """A board an entry takes part in: its rows in the tables, and how it fares against each other entry."""

    board: Board
    rows: list[tuple[Table, Row]] = field(default_factory=list)
    conditions: list[tuple[Table, list[Row]]] = field(default_factory=list)
    columns: list[tuple[Table, ColumnSpec]] = field(default_factory=list)
    rivals: list[tuple[Table, list[tuple[str, float | None, float | None]]]] = field(default_factory=list)
    images: list[Shown] = field(default_factory=list)


@dataclass
class EntryView:
    """Everything an entry's page shows. `parts`: the components that make it, when it is not one itself."""

    kind: str
    label: str
    page: str
    facts: Entry | None
    parts: list[tuple[str, str]] = field(default_factory=list)
    appearances: list[Appearance] = field(default_factory=list)


def standing_word(entry: Entry | None) -> str:
    """Return how a submitted entry stands, in a word or two; empty for one that came with the harness."""
    word = ""
    for decided in entry.standing if entry is not None else ():
        if decided.decision in ("added", "re-scored"):
            word = "submitted"
        elif word != "flagged" or decided.decision == "withdrawn":
            word = decided.decision
    return word


def entry_views(boards: Sequence[Board], gallery: dict[str, list[Shown]]) -> dict[tuple[str, str], EntryView]:
    """Return the entries of all boards by kind and label."""
    views: dict[tuple[str, str], EntryView] = {}
    for board in boards:
        for entry in board.entries:
            place = (entry.kind, entry.label)
            views.setdefault(place, EntryView(*place, entry_page(*place), entry))
            views[place].appearances.append(_appearance(board, entry.label, gallery.get(board.track, [])))
        known = {entry.label: entry.kind for entry in board.entries}
        main = board.tables[0] if board.tables else None
        for row in main.rows if main else ():
            if main and row.label not in known:
                place = (main.entry, row.label)
                parts = [(known[part], part) for part in row.label.split(" + ") if part in known]
                views.setdefault(place, EntryView(*place, entry_page(*place), None, parts))
                views[place].appearances.append(_appearance(board, row.label, gallery.get(board.track, [])))
    return views


def _appearance(board: Board, label: str, images: Sequence[Shown]) -> Appearance:
    found = Appearance(board)
    for table in board.tables:
        own = [row for row in table.rows if row.label == label]
        if table.id.startswith(CONDITIONS):
            if own:
                found.conditions.append((table, own))
        elif own and any(comparison.id == table.id for comparison in board.comparisons):
            found.rivals.append((table, _rivals(table, own[0])))
        else:
            found.rows += [(table, row) for row in own]
            found.columns += [(table, column) for column in table.columns if column.label == label]
    found.images = [shown for shown in images if shown.example.entry == label]
    return found


def _rivals(table: Table, row: Row) -> list[tuple[str, float | None, float | None]]:
    """Return each rival with the share of conditions won and lost, %."""
    mine = {c.label: c.key for c in table.columns}.get(row.label, "")
    found = []
    for column in table.columns:
        if column.label == row.label:
            continue
        other = next((r for r in table.rows if r.label == column.label), None)
        won, lost = row.values.get(column.key), other.values.get(mine) if other else None
        found.append((column.label, won.value if won else None, lost.value if lost else None))
    return found
