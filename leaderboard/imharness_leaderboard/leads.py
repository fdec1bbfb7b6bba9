"""What a board found before all: one sentence for its page, and the title of the whole site.

The findings of a board are sorted by what a reader must know first. The first rule that applies leads:

1. fails: of the entries that are shown to be better than no defense while the attacker does not know them, at least
   two, and at least half, are shown to do worse once the attacker knows them and keep less than half of that advantage;
2. wins: one entry wins;
3. moves: at least half of the entries are shown to do worse once the attacker knows them;
4. costs: at least half of the entries are shown to cost too much;
5. better: some entry is shown to protect better than others; the one that is better than most others leads;
6. open: nothing of this is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from imharness.results.findings import Finding
from imharness.results.rankings import Ranking
from imharness.results.tables import Table
from imharness_leaderboard.names import in_names, plural

Kind = Literal["fails", "wins", "moves", "costs", "better", "open"]


@dataclass(frozen=True)
class Lead:
    """What leads a board: `count` of `of` entries, the title that it would give the site, and the board's sentence."""

    kind: Kind
    count: int
    of: int
    title: str
    sentence: str


def first_of(leads: Sequence[Lead]) -> int:
    """Return which of several boards' leads gives the site its title: that of the first rule, with the most entries."""
    order = get_args(Kind)
    return min(range(len(leads)), key=lambda i: (order.index(leads[i].kind), -leads[i].count, i))


def lead_of(ranking: Ranking, table: Table, names: Mapping[str, str]) -> Lead:
    """Return what a ranking found before all; `names`: label -> what it is called."""
    return next(_leads(_Board(ranking, table, names)))


class _Board:
    def __init__(self, ranking: Ranking, table: Table, names: Mapping[str, str]) -> None:
        self.ranking, self.names, self.entry = ranking, names, table.entry
        self.rows = {row.label: row for row in table.rows}
        self.lower = any(column.key == "worst" and column.better == "lower" for column in table.columns)
        self.own = [label for label, place in ranking.places.items() if not place.control]

    def of(self, kind: str, tier: str) -> list[Finding]:
        return [own for own in self.ranking.findings if (own.kind, own.tier) == (kind, tier)]

    def harm(self, before: float, after: float) -> float:
        return after - before if self.lower else before - after

    def fails(self) -> tuple[list[str], list[str]]:
        """Return the entries that look strong, and those of them that keep less than half of it."""
        plain, moved = self.rows.get(self.ranking.undefended), {own.entry for own in self.of("moves", "shown")}
        ends = [plain.number(key) if plain is not None else None for key in ("unaware", "aware")]
        without = self.harm(ends[0], ends[1]) if ends[0] is not None and ends[1] is not None else 0.0
        strong, failed = [], []
        for label in self.own:
            place = self.ranking.places[label]
            if place.broken is None or place.moved is None or not (place.broken.seems.low or 0.0) > 0:
                continue
            strong.append(label)
            seems = place.broken.seems.value
            if label in moved and seems - self.harm(place.moved.before, place.moved.after) + without < 0.5 * seems:
                failed.append(label)
        return strong, failed


def _leads(board: _Board) -> Iterator[Lead]:
    entry, entries = board.entry, f"{board.entry}s"
    strong, failed = board.fails()
    n, of = len(failed), len(strong)
    if n >= 2 and 2 * n >= of:
        title = f"{entries.capitalize()} that look strong often fail once the attacker knows them"
        kept = "keep less than half of that protection once the attacker knows them"
        text = f"{n} of {of} {entries} that look strong {kept}."
        yield Lead("fails", n, of, title, text)
    if board.ranking.winner:
        title = f"{board.names[board.ranking.winner]} holds, even against attackers who know it"
        yield Lead("wins", 1, len(board.own), title, in_names(claim_alone(board.ranking), board.names))
    moves = board.of("moves", "shown")
    both = [label for label in board.own if board.ranking.places[label].moved is not None]
    if moves and 2 * len(moves) >= len(both):
        yield _moving(board, moves, len(both))
    costs = list(dict.fromkeys(own.entry for own in board.of("costs", "ruled out")))
    if costs and 2 * len(costs) >= len(board.own):
        what = board.of("costs", "ruled out")[0].measure
        text = f"{len(costs)} of {len(board.own)} {entries} cost too much {what}."
        yield Lead("costs", len(costs), len(board.own), f"Most {entries} cost too much", text)
    better = max(board.of("better", "shown"), key=lambda own: len(own.against), default=None)
    if better is not None:
        name, n, of = board.names[better.entry], len(better.against), len(board.ranking.places) - 1
        text = f"{name} is shown to protect better than {n} of {of} others, controls among them."
        yield Lead("better", n, of, f"{name} protects better than most {entries}", text)
    title = f"No {entry} is shown yet to protect better than others"
    yield Lead("open", 0, len(board.own), title, f"{title}.")


def _moving(board: _Board, moves: Sequence[Finding], of: int) -> Lead:
    entry = board.entry
    worst = max(moves, key=lambda own: abs(own.facts["change"].value))
    moved = board.ranking.places[worst.entry].moved
    assert moved is not None
    numbers = f"{moved.before:.{worst.decimals}f} to {moved.after:.{worst.decimals}f}"
    text = (
        f"{len(moves)} of {of} {plural(entry, of)} do worse once the attacker knows them: {board.names[worst.entry]} "
        f"moves from {numbers} {worst.measure}."
    )
    return Lead("moves", len(moves), of, f"Most {entry}s do worse once the attacker knows them", text)


def claim_alone(ranking: Ranking) -> str:
    """Return the headline without the list of what stands in for something real."""
    return ranking.claim.partition(" Proxies: ")[0]
