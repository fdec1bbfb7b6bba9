"""The rows of a ranking in parts: the first one stands in the page of the track, the others on pages of their own.

A reader without scripts goes from page to page. The script of the track's page knows all rows by an index
(`index_of`), which it fetches when it sorts, filters or turns a page first. It takes rows from the pages that show
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from imharness_leaderboard.addresses import data_file, rows_page, track_page

if TYPE_CHECKING:
    from imharness_leaderboard.rankings import RankedRow, RankingView

SHOWN = 50
"""How many rows a page shows at once; the script has the same number."""
WHOLE = 100
"""A ranking of at most so many rows stands in the page of its track as a whole."""


@dataclass(frozen=True)
class Part:
    """Some rows of a ranking: where they start, counted from 1, and the address of the page that shows them."""

    number: int
    start: int
    rows: Sequence[RankedRow]
    page: str

    @property
    def end(self) -> int:
        """The place of the last row, counted from 1."""
        return self.start + len(self.rows) - 1


def parts_of(view: RankingView) -> list[Part]:
    """Return the parts of a ranking, one where it is short."""
    size = SHOWN if len(view.rows) > WHOLE else WHOLE
    starts = range(0, max(len(view.rows), 1), size)
    return [
        Part(
            number,
            start + 1,
            view.rows[start : start + size],
            track_page(view.board) if number == 1 else rows_page(view.board, view.table, number),
        )
        for number, start in enumerate(starts, 1)
    ]


def index_file(view: RankingView) -> str:
    """Return the address of the index of all rows; empty where all rows stand in the page of the track."""
    return data_file(view.board, view.table.id, "rows.json") if len(view.parts) > 1 else ""


def index_of(view: RankingView) -> dict[str, Any]:
    """Return what the script must know of all rows, a list for each fact, in the order of the page."""
    places, groups = view.ranking.places, list(view.groups)
    labels = [shown.row.label for shown in view.rows]
    return {
        "labels": labels,
        "names": [shown.name for shown in view.rows],
        "groups": [groups.index(shown.group) for shown in view.rows],
        "worst": [shown.row.number("worst") for shown in view.rows],
        "utility": [shown.row.number("utility") for shown in view.rows],
        "words": [" ".join(badge.text for badge in shown.badges) for shown in view.rows],
        "control": [places[label].control for label in labels],
        "able": [int(places[label].able) for label in labels],
        "flagged": [int(bool(places[label].flags)) for label in labels],
        "complete": [int(places[label].complete) for label in labels],
        "silent": view.ranking.silent,
        "pages": [part.page for part in view.parts],
    }
