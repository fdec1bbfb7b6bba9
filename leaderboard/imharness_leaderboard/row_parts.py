"""The rows of a ranking in parts: the first one stands in the page of the track, the others on pages of their own.

A reader without scripts goes from page to page. The script of the track's page knows all rows by an index, which it
fetches when it sorts, filters or turns a page first. It takes rows from the pages that show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from imharness.results.boards import Board
from imharness.results.tables import Table
from imharness_leaderboard.addresses import rows_page, track_page

SHOWN = 50
"""How many rows a page shows at once; the script has the same number."""
WHOLE = 100
"""A ranking of at most so many rows stands in the page of its track as a whole."""
RowT = TypeVar("RowT")


@dataclass(frozen=True)
class Part(Generic[RowT]):
    """Some rows of a ranking: where they start, counted from 1, and the address of the page that shows them."""

    number: int
    start: int
    rows: Sequence[RowT]
    page: str

    @property
    def end(self) -> int:
        """The place of the last row, counted from 1."""
        return self.start + len(self.rows) - 1


def parts_of(board: Board, table: Table, rows: Sequence[RowT]) -> list[Part[RowT]]:
    """Return the parts of a ranking, one where it is short."""
    size = SHOWN if len(rows) > WHOLE else WHOLE
    return [
        Part(
            number,
            start + 1,
            rows[start : start + size],
            track_page(board) if number == 1 else rows_page(board, table, number),
        )
        for number, start in enumerate(range(0, max(len(rows), 1), size), 1)
    ]
