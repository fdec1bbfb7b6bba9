"""The order of a ranking's table: entries that may win, those that cannot, incomplete ones, and controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imharness.documents.rankings import Place
from imharness.documents.tables import ColumnSpec, Row
from imharness.ranking.ranking import ranked


def in_order(rows: Sequence[Row], places: Mapping[str, Place], *columns: ColumnSpec) -> tuple[Row, ...]:
    """Return the rows of a table in groups (see `group_of`), and by columns within each, as `ranked` does."""
    return tuple(sorted(ranked(rows, *columns), key=lambda row: group_of(places[row.label])))


def group_of(position: Place) -> int:
    """Return 0 for an entry that may win, 1 where a gate or a flag rules it out, 2 if incomplete, 3 for a control."""
    if position.control:
        return 3
    if not position.complete:
        return 2
    return 0 if position.able and not position.flags else 1
