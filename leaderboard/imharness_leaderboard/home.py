"""The home page: what the site found, drawn for one attack, and one sentence about each board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imharness.exports.data import csv_bytes
from imharness.exports.marks import proxies_of
from imharness.results.boards import Board
from imharness.results.findings import Tier, by_tier
from imharness_leaderboard.addresses import data_file
from imharness_leaderboard.folder import SiteFolder
from imharness_leaderboard.knowing import Slope, known_of, slope_of
from imharness_leaderboard.leads import Lead, first_of
from imharness_leaderboard.rankings import RankedRow, RankingView

NO_TITLE = "Which defense, metric or evaluator holds?"


@dataclass(frozen=True)
class Asked:
    """A board on the home page: its question, what it found, and how many findings each tier has.

    `lead` is None and `tiers` is empty where the board has no ranking.
    """

    board: Board
    view: RankingView | None
    question: str
    lead: Lead | None
    tiers: Mapping[Tier, int]
    pair: tuple[str, ...]
    """What the two entries to compare are called: the first two that may win, or else the next ones; no controls."""
    compare: str


@dataclass(frozen=True)
class Home:
    """What the home page says. `hero` are the drawings for a broad and for a narrow screen, empty without scores."""

    title: str
    first: Asked | None
    asked: Sequence[Asked]
    counts: str
    why: Sequence[tuple[str, Sequence[str]]]
    """What stands in for something real, by the title of the board."""
    hero: Sequence[Slope]
    numbers: str
    """The address of the file with the drawing's numbers."""
    example: RankedRow | None
    """The row that the page explains."""


def home_of(boards: Sequence[Board], views: Mapping[str, Sequence[RankingView]]) -> Home:
    """Return what the home page says of all boards."""
    asked = [_asked(board, views.get(board.track, ())) for board in boards]
    led = [own for own in asked if own.lead is not None]
    first = led[first_of([own.lead for own in led if own.lead is not None])] if led else None
    hero = _hero(first.view) if first is not None and first.view is not None else []
    return Home(
        first.lead.title if first is not None and first.lead is not None else NO_TITLE,
        first,
        asked,
        _counts(boards),
        [(board.title, found) for board in boards if (found := proxies_of(board))],
        hero,
        data_file(first.board, "slope", "csv") if first is not None and hero else "",
        first.view.rows[0] if first is not None and first.view is not None and first.view.rows else None,
    )


def write_numbers(site: SiteFolder, home: Home) -> None:
    """Write the numbers of the home page's drawing."""
    if home.numbers:
        site.write(home.numbers, csv_bytes(home.hero[0].data))


def question_of(board: Board, entry: str = "entry") -> str:
    """Return the question of a board: its own, or one that fits every ranking."""
    return board.question or f"Which {entry} protects best when the attacker knows it?"


def _asked(board: Board, views: Sequence[RankingView]) -> Asked:
    if not views:
        return Asked(board, None, board.question or board.title, None, {}, (), "")
    view, ranking = views[0], views[0].ranking
    rivals = [label for label in view.names if not ranking.places[label].control]
    rivals.sort(
        key=lambda label: (label != ranking.winner, label not in ranking.may_be_best, not ranking.places[label].able)
    )
    pair = tuple(view.names[label] for label in rivals[:2]) if len(rivals) > 1 else ()
    return Asked(
        board,
        view,
        question_of(board, view.table.entry),
        view.lead,
        {tier: len(found) for tier, found in by_tier(ranking.findings).items()},
        pair,
        view.compared(*rivals[:2]) if pair else "",
    )


def _hero(view: RankingView) -> list[Slope]:
    known = known_of(view.scores, view.ranking) if view.scores is not None else None
    if known is None or view.scores is None:
        return []
    own, entry = view.scores.comparison, view.table.entry
    return [
        slope_of(known, own, view.names, entry, width, height) for width, height in ((760.0, 420.0), (366.0, 380.0))
    ]


def _counts(boards: Sequence[Board]) -> str:
    entries = {
        (b.track, row) for b in boards for own in b.rankings for row, place in own.places.items() if not place.control
    }
    attacks = {
        (board.track, condition.facets[ranking.attack])
        for board in boards
        for ranking in board.rankings
        for own in board.comparisons
        if own.id == ranking.comparison
        for condition in own.conditions
    }
    parts = [(len(boards), "track", "tracks"), (len(entries), "entry", "entries"), (len(attacks), "attack", "attacks")]
    return ", ".join(f"{n:,} {one if n == 1 else more}" for n, one, more in parts if n)
