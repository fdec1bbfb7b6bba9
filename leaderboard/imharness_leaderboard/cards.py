"""The home page: what data the site shows, and one true sentence about each board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imharness.results.boards import Board
from imharness.results.tables import joined
from imharness_leaderboard.fronts import Front, front_of
from imharness_leaderboard.rankings import RankingView
from imharness_leaderboard.wording import partial


@dataclass(frozen=True)
class Card:
    """A board on the home page. `claim` and `front` are empty where the board has no ranking."""

    board: Board
    claim: str
    winner: str
    front: Front | None
    pair: tuple[str, ...]
    """The short names of the two entries to compare: the winner and the next one that passes; no controls."""
    compare: str


def data_line(boards: Sequence[Board]) -> tuple[bool, str]:
    """Return whether the site shows demo data, and a line that says what the data are.

    Tables of a run that is not finished are no better than demo data.
    """
    unfinished = [f"{board.title} {partial(board)}" for board in boards if board.waiting]
    if unfinished:
        return True, f"Unfinished run: {joined(unfinished)}; do not cite"
    proxies = list(dict.fromkeys(proxy for b in boards for own in b.rankings for proxy in own.proxies))
    limits = sorted({board.limit for board in boards if board.limit})
    split = "secret split, " if any(board.secret for board in boards) else ""
    if proxies:
        some = split + (f"at most {limits[-1]} images, " if limits else "")
        return True, f"Demo data: {some}{joined(proxies)}; do not cite"
    profiles = dict.fromkeys(board.profile for board in boards)
    return False, f"Data: {split}{joined(profiles)}" + (f", at most {limits[-1]} images" if limits else "")


def cards(boards: Sequence[Board], views: Mapping[str, Sequence[RankingView]]) -> list[Card]:
    """Return a card for each board."""
    return [_card(board, views.get(board.track, ())) for board in boards]


def _card(board: Board, views: Sequence[RankingView]) -> Card:
    if not views:
        return Card(board, "", "", None, (), "")
    view, ranking = views[0], views[0].ranking
    rivals = [label for label in view.names if not ranking.places[label].control]
    rivals.sort(key=lambda label: (label != ranking.winner, not ranking.places[label].able))
    front = front_of(view.table, ranking, 320, 150, small=True)
    pair = tuple(view.names[label] for label in rivals[:2]) if len(rivals) > 1 else ()
    return Card(board, ranking.claim, ranking.winner, front, pair, view.compared(*rivals[:2]) if pair else "")
