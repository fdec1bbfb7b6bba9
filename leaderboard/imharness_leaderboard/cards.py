"""The home page: what data the site shows, and one true sentence about each board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imharness.results.records import Board
from imharness_leaderboard.addresses import table_page, track_page
from imharness_leaderboard.entries import EntryView
from imharness_leaderboard.fronts import Front, front_of
from imharness_leaderboard.rankings import RankingView
from imharness_leaderboard.wording import brief, joined


@dataclass(frozen=True)
class Card:
    """A board on the home page. `claim` and `front` are empty where the board has no ranking."""

    board: Board
    claim: str
    winner: str
    front: Front | None
    against: str
    """The entry that the winner is compared with, the best of the others; empty without one."""


def data_line(boards: Sequence[Board]) -> tuple[bool, str]:
    """Return whether the site shows demo data, and a line that says what the data are."""
    proxies = list(dict.fromkeys(proxy for b in boards for own in b.rankings for proxy in own.proxies))
    limits = sorted({board.limit for board in boards if board.limit})
    if proxies:
        some = f"at most {limits[-1]} images, " if limits else ""
        return True, f"Demo data: {some}{joined(proxies)}; do not cite"
    profiles = dict.fromkeys(board.profile for board in boards)
    return False, f"Data: {joined(profiles)}" + (f", at most {limits[-1]} images" if limits else "")


def cards(boards: Sequence[Board], views: Mapping[str, Sequence[RankingView]]) -> list[Card]:
    """Return a card for each board."""
    found = []
    for board in boards:
        own = views.get(board.track, ())
        if not own:
            found.append(Card(board, "", "", None, ""))
            continue
        first = own[0]
        others = [row.label for row in first.table.rows if row.label != first.ranking.winner
                  and not first.ranking.places[row.label].control]  # fmt: skip
        front = front_of(first.table, first.ranking, 320, 150, small=True)
        against = others[0] if others and first.ranking.winner else ""
        found.append(Card(board, first.ranking.claim, first.ranking.winner, front, against))
    return found


def found_by_search(boards: Sequence[Board], entries: Sequence[EntryView]) -> list[list[str]]:
    """Return what readers can search for: text, what it is, and the address of its page."""
    found = [[board.title, "track", track_page(board)] for board in boards]
    found += [[brief(view.label), view.kind, view.page] for view in entries]
    return found + [
        [table.title, f"table, {board.title}", table_page(board, table)] for board in boards for table in board.tables
    ]
