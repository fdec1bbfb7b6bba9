"""The home page: what the site found, drawn for one attack, and for each leaderboard its headline and first rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from imharness.documents.findings import Tier, by_tier
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Outcome, Ranking
from imharness.exports.data import csv_bytes
from imharness.exports.marks import proxies_of
from imharness_leaderboard.adaptive_effect import Slope, effect_of, slope_of
from imharness_leaderboard.addresses import data_file
from imharness_leaderboard.folder import SiteFolder
from imharness_leaderboard.headline import Lead, first_of
from imharness_leaderboard.ranking_rows import RankedRow
from imharness_leaderboard.rankings import RankingView

NO_TITLE = "Which defense, metric or evaluator holds?"
ROWS = 3
"""How many rows of a ranking the home page shows."""


@dataclass(frozen=True)
class Asked:
    """A leaderboard on the home page, with the question that it answers.

    Attributes:
        leaderboard: the leaderboard.
        view: its ranking with the strongest outcome, such as a winner; None without a ranking.
        question: the question.
        others: its further rankings.
        rows: the first rows of `view`.
        lead: the strongest lead of all its rankings; None without a ranking.
        tiers: the number of findings of each tier, over all its rankings.
        pair: what the two entries to compare are called: the first that may win, and the one that all are compared
            with; empty without them.
        compare: the address of the page that compares the two.
    """

    leaderboard: Leaderboard
    view: RankingView | None
    question: str
    others: Sequence[RankingView]
    rows: Sequence[RankedRow]
    lead: Lead | None
    tiers: Mapping[Tier, int]
    pair: tuple[str, ...]
    compare: str

    @property
    def views(self) -> list[RankingView]:
        """All its rankings, first the one that says most."""
        return [self.view, *self.others] if self.view is not None else []


@dataclass(frozen=True)
class Home:
    """What the home page says.

    `first`: the leaderboard that gives the page its title. `hero`: the drawing, for a broad and for a narrow screen;
    empty without scores.
    """

    title: str
    first: Asked | None
    asked: Sequence[Asked]
    counts: str
    why: Sequence[tuple[str, Sequence[str]]]
    """What stands in for something real, by the title of the leaderboard."""
    pictured: Asked | None
    """The leaderboard of the drawing."""
    hero: Sequence[Slope]
    numbers: str
    """The address of the file with the drawing's numbers."""
    example: RankedRow | None
    """The row that the page explains."""


def home_of(leaderboards: Sequence[Leaderboard], views: Mapping[str, Sequence[RankingView]]) -> Home:
    """Return what the home page says of all leaderboards."""
    questions = [_asked(leaderboard, views.get(leaderboard.track, ())) for leaderboard in leaderboards]
    ranked = [question for question in questions if question.lead is not None]
    first = ranked[first_of([question.lead for question in ranked if question.lead is not None])] if ranked else None
    in_order = [first, *ranked] if first is not None else []
    drawings = ((question, hero) for question in in_order for view in question.views if (hero := _hero(view)))
    pictured, hero = next(drawings, (None, list[Slope]()))
    return Home(
        first.lead.title if first is not None and first.lead is not None else NO_TITLE,
        first,
        questions,
        _counts(leaderboards),
        [(leaderboard.title, proxies) for leaderboard in leaderboards if (proxies := proxies_of(leaderboard))],
        pictured,
        hero,
        data_file(pictured.leaderboard, "slope", "csv") if pictured is not None else "",
        first.view.rows[0] if first is not None and first.view is not None and first.view.rows else None,
    )


def write_numbers(site: SiteFolder, home: Home) -> None:
    """Write the numbers of the home page's drawing."""
    if home.numbers:
        site.write(home.numbers, csv_bytes(home.hero[0].data))


def question_of(leaderboard: Leaderboard, entry: str = "entry") -> str:
    """Return the question of a leaderboard: its own, or one that fits every ranking."""
    return leaderboard.question or f"Which {entry} protects best when the attacker knows it?"


def _asked(leaderboard: Leaderboard, views: Sequence[RankingView]) -> Asked:
    if not views:
        return Asked(leaderboard, None, leaderboard.question or leaderboard.title, (), (), None, {}, (), "")
    order = get_args(Outcome)
    view = min(views, key=lambda view: order.index(view.ranking.outcome))
    leads = [view.lead for view in views]
    both = [label for label in (view.ranking.first, view.ranking.baseline) if label in view.names]
    pair = tuple(view.names[label] for label in both) if len(both) == 2 else ()
    findings = by_tier(finding for view in views for finding in view.ranking.findings)
    return Asked(
        leaderboard,
        view,
        question_of(leaderboard, view.table.entry),
        [other for other in views if other is not view],
        first_rows(view),
        leads[first_of(leads)],
        {tier: len(members) for tier, members in findings.items()},
        pair,
        view.compared(*both) if pair else "",
    )


def first_rows(view: RankingView) -> list[RankedRow]:
    """Return the rows that stand for a ranking: its first eligible ones, then others that are no controls."""
    rows = [row for row in view.rows if row.group != "control" and row.row.number("worst") is not None]
    return sorted(rows, key=lambda row: not row.place.eligible)[:ROWS]


def _hero(view: RankingView) -> list[Slope]:
    effect = effect_of(view.scores, view.ranking) if view.scores is not None else None
    if effect is None or view.scores is None:
        return []
    comparison, entry = view.scores.comparison, view.table.entry
    return [
        slope_of(effect, comparison, view.names, entry, width, height)
        for width, height in ((760.0, 420.0), (366.0, 380.0))
    ]


def _counts(leaderboards: Sequence[Leaderboard]) -> str:
    entries = {
        (leaderboard.track, row)
        for leaderboard in leaderboards
        for ranking in leaderboard.rankings
        for row, position in ranking.places.items()
        if not position.control
    }
    attacks = {
        (leaderboard.track, attack)
        for leaderboard in leaderboards
        for ranking in leaderboard.rankings
        for attack in _attacks(leaderboard, ranking)
    }
    counts = [
        (len(leaderboards), "track", "tracks"),
        (len(entries), "entry", "entries"),
        (len(attacks), "attack", "attacks"),
    ]
    return ", ".join(f"{n:,} {one if n == 1 else more}" for n, one, more in counts if n)


def _attacks(leaderboard: Leaderboard, ranking: Ranking) -> set[str]:
    """Return the attacks behind a ranking; where one is chosen for each entry, no condition names it."""
    if ranking.chosen:
        return {entry.label for entry in leaderboard.entries if entry.kind == ranking.attack}
    conditions = [
        condition
        for comparison in leaderboard.comparisons
        if comparison.id == ranking.comparison
        for condition in comparison.conditions
    ]
    return {condition.facets[ranking.attack] for condition in conditions} - {"none"}  # none: what nobody attacked
