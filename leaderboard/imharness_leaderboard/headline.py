"""The title of the whole site, which comes from one of its leaderboards. The core makes the headlines of rankings.

The findings of a leaderboard are sorted by what a reader must know first. The first rule that applies leads:

1. fails: entries look strong, but fail. Strong are those that are shown to be better than no defense while the
   attacker does not know them. At least two of these, and at least half, are shown to do worse once the attacker knows
   them, and to keep less than half of their advantage against the worst attack;
2. wins: one entry wins;
3. moves: at least half of the entries are shown to do worse once the attacker knows them;
4. costs: at least half of the entries are shown to cost too much;
5. better: some entry is shown to be better than no defense; the one that gains most leads;
6. open: nothing of this is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from imharness.documents.findings import Finding
from imharness.documents.rankings import Ranking

Kind = Literal["fails", "wins", "moves", "costs", "better", "open"]


@dataclass(frozen=True)
class Lead:
    """The statement that leads a leaderboard: of how many entries it is true, and the site title that it would make."""

    kind: Kind
    count: int
    title: str


def first_of(leads: Sequence[Lead]) -> int:
    """Return which of several leads gives the site its title: that of the first rule, with the most entries."""
    order = get_args(Kind)
    return min(range(len(leads)), key=lambda i: (order.index(leads[i].kind), -leads[i].count, i))


def lead_of(ranking: Ranking, entry: str, names: Mapping[str, str]) -> Lead:
    """Return the leading statement about a ranking; `entry`: what a row is, `names`: label -> what it is called."""
    return next(_leads(_Leaderboard(ranking, entry, names)))


class _Leaderboard:
    """A ranking, with its entries that are no controls."""

    def __init__(self, ranking: Ranking, entry: str, names: Mapping[str, str]) -> None:
        self.ranking, self.names, self.entry = ranking, names, entry
        self.entries = [label for label, position in ranking.places.items() if not position.control]

    def of(self, kind: str, tier: str) -> list[Finding]:
        """Return the findings of a kind in a tier."""
        return [finding for finding in self.ranking.findings if (finding.kind, finding.tier) == (kind, tier)]

    def fails(self) -> tuple[list[str], list[str]]:
        """Return the entries that look strong, and those of them that fail; see rule 1."""
        strong = [
            label
            for label in self.entries
            if (broken := self.ranking.places[label].broken) is not None and (broken.seems.low or 0.0) > 0
        ]
        moving = {finding.entry for finding in self.of("moves", "shown")}
        failing = moving & {finding.entry for finding in self.of("broken", "ruled out")}
        return strong, [label for label in strong if label in failing]


def _leads(leaderboard: _Leaderboard) -> Iterator[Lead]:
    """Yield what applies to a leaderboard, in the order of the rules."""
    entry, entries, plain = leaderboard.entry, f"{leaderboard.entry}s", leaderboard.ranking.baseline_name
    strong, failed = leaderboard.fails()
    if len(failed) >= 2 and 2 * len(failed) >= len(strong):
        title = f"{entries.capitalize()} that look strong often fail once the attacker knows them"
        yield Lead("fails", len(failed), title)
    if leaderboard.ranking.winner:
        title = f"{leaderboard.names[leaderboard.ranking.winner]} holds, even against attackers who know it"
        yield Lead("wins", 1, title)
    moves = leaderboard.of("moves", "shown")
    tested_both_ways = [label for label in leaderboard.entries if leaderboard.ranking.places[label].moved is not None]
    if moves and 2 * len(moves) >= len(tested_both_ways):
        yield Lead("moves", len(moves), f"Most {entries} do worse once the attacker knows them")
    costs = list(dict.fromkeys(finding.entry for finding in leaderboard.of("costs", "ruled out")))
    if costs and 2 * len(costs) >= len(leaderboard.entries):
        yield Lead("costs", len(costs), f"Most {entries} cost too much")
    better = leaderboard.of("better", "shown")
    if better:
        yield Lead("better", len(better), f"{leaderboard.names[better[0].entry]} is better than {plain}")
    yield Lead("open", 0, f"No {entry} is shown yet to be better than {plain}")
