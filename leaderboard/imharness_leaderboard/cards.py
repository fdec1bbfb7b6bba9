"""What the home page shows beside its findings: what data these are, and what readers can search for."""

from __future__ import annotations

from collections.abc import Sequence

from imharness.results.boards import Board
from imharness.results.tables import joined
from imharness_leaderboard.addresses import table_page, track_page
from imharness_leaderboard.entries import EntryView
from imharness_leaderboard.wording import brief, partial


def data_line(boards: Sequence[Board]) -> tuple[bool, str]:
    """Return whether the site shows data that nobody should cite, and a line that says what the data are.

    Tables of a run that is not finished are no better than stand-in data.
    """
    unfinished = [f"{board.title} {partial(board)}" for board in boards if board.waiting]
    split = "secret split, " if any(board.secret for board in boards) else ""
    if unfinished:
        return True, f"Unfinished run: {joined(unfinished)}; do not cite"
    if any(map(proxies_of, boards)):
        return True, f"Demo: {split}stand-in data, not citable."
    profiles = joined(dict.fromkeys(board.profile for board in boards))
    limits = sorted({board.limit for board in boards if board.limit})
    return False, f"Data: {split}{profiles}" + (f", at most {limits[-1]} images" if limits else "")


def proxies_of(board: Board) -> list[str]:
    """Return what stands in for something real on a board, such as labels that nobody gave."""
    return list(dict.fromkeys(proxy for own in board.rankings for proxy in own.proxies))


def found_by_search(boards: Sequence[Board], entries: Sequence[EntryView]) -> list[list[str]]:
    """Return what readers can search for: text, what it is, and the address of its page."""
    found = [[board.title, "track", track_page(board)] for board in boards]
    found += [[brief(view.label), view.kind, view.page] for view in entries]
    return found + [
        [table.title, f"table, {board.title}", table_page(board, table)] for board in boards for table in board.tables
    ]
