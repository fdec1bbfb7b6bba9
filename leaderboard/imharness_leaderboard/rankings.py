"""What the page of a track shows of its ranking: rows with their drawings, badges and details, and the pickers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

import numpy as np

from imharness.results.boards import Board
from imharness.results.comparisons import Comparison
from imharness.results.entries import Entry
from imharness.results.findings import by_tier
from imharness.results.rankings import Place, Ranking
from imharness.results.tables import ColumnSpec, Row, Table, Value, joined
from imharness_leaderboard.addresses import data_file, details_page
from imharness_leaderboard.badges import Badge, badges_of
from imharness_leaderboard.chips import name_of
from imharness_leaderboard.citations import bibtex
from imharness_leaderboard.commands import compute_again
from imharness_leaderboard.drawing import scale_of
from imharness_leaderboard.entries import kept_words
from imharness_leaderboard.fronts import Front, front_of
from imharness_leaderboard.gallery import GalleryExample
from imharness_leaderboard.heats import Heat, heat_of
from imharness_leaderboard.lanes import Lane, Lanes, lanes_of
from imharness_leaderboard.leads import Lead, claim_alone, lead_of
from imharness_leaderboard.names import attack_names, display_name, display_names, in_names
from imharness_leaderboard.pickers import Picker, pickers_of
from imharness_leaderboard.row_parts import Part, parts_of
from imharness_leaderboard.scores import Scores
from imharness_leaderboard.tables import column_named, shown, table_named
from imharness_leaderboard.wording import brief, last_sentence
from imharness_leaderboard.worst_case import setting_means, worst_case

BAR = 200.0
"""The width of the longest bar of an attack, px."""
Group = Literal["best", "stands", "ruled-out", "incomplete", "control"]
GROUPS: Mapping[Group, str] = {
    "best": "May be best",
    "stands": "Shown to be worse than the best",
    "ruled-out": "Ruled out: costs too much, or is flagged",
    "incomplete": "Incomplete: not ranked",
    "control": "Controls: for reference, never win",
}
"""The groups of rows in their order, with what stands above each."""


class Bar(NamedTuple):
    """An attack's effect on an entry: the attack, the number as text, and the length of the bar in px."""

    name: str
    value: str
    length: float
    aware: bool


class Small(NamedTuple):
    """One of several small drawings: its title, and each entry's name, place in px, and number as text."""

    title: str
    points: Sequence[tuple[str, float | None, str]]


@dataclass(frozen=True)
class RankedRow:
    """A row of the ranking and everything behind it. `chips` are the parameters, `lane` its drawing."""

    row: Row
    place: Place
    name: str
    chips: Sequence[str]
    group: Group
    lane: Lane
    worst_attack: str
    badges: Sequence[Badge]
    bars: Sequence[Bar]
    images: Sequence[GalleryExample]
    needed: int | None
    """How many units, or clusters, would tell it from the first; None where the present ones do, or if not known."""
    entries: Sequence[Entry]
    command: str
    bibtex: str
    page: str
    """The address of the page with its details."""

    @property
    def gate(self) -> str:
        """What it keeps of what it must keep, in words."""
        return brief("; ".join(map(kept_words, self.place.kept)))


class RankingView:
    """A ranking as its page shows it. `scores` are None where the store has no numbers behind it."""

    def __init__(
        self,
        board: Board,
        ranking: Ranking,
        table: Table,
        scores: Scores | None,
        gallery: Sequence[GalleryExample],
        release: str,
    ) -> None:
        self.board, self.ranking, self.table, self.release = board, ranking, table, release
        self.scores, self.gallery = scores, gallery
        self.names = display_names([row.label for row in table.rows])

    def column(self, key: str) -> ColumnSpec:
        """Return a column of the table."""
        found = column_named(self.table, key)
        return found or ColumnSpec(key=key, label=key, description="")

    @cached_property
    def comparison(self) -> Comparison | None:
        """The comparison behind the ranking."""
        return self.scores.comparison if self.scores is not None else None

    @cached_property
    def attacks(self) -> list[str]:
        """The attacks, first the one that is the worst most often."""
        total: dict[str, float] = {}
        for place in self.ranking.places.values():
            for name, share in place.broken_by.items():
                total[name] = total.get(name, 0.0) + share
        return sorted(total, key=lambda name: (-total[name], name))

    @cached_property
    def attack_names(self) -> dict[str, str]:
        """What each attack is called."""
        return attack_names(self.attacks)

    @cached_property
    def lanes(self) -> Lanes:
        """The drawings of all rows on one scale."""
        return lanes_of(self.table, self.ranking)

    @property
    def hollow(self) -> str:
        """What the hollow dot of a row is, as its column says it; empty where no row has one."""
        column = column_named(self.table, "unaware")
        if column is None or all(row.number("unaware") is None for row in self.table.rows):
            return ""
        return last_sentence(column.description)

    @property
    def tinted(self) -> str:
        """What the rows that may be best have in common."""
        names = {own.id: own.measure for own in self.board.comparisons}
        deciding = dict.fromkeys(names[own] for own in self.ranking.yardsticks if own in names)
        if len(deciding) < 2:
            return "Tinted rows may be best: no entry that can win is shown to be better."
        return (
            f"Tinted rows may be best: by at least one of {brief(joined(list(deciding)))}, no entry that can win is "
            "shown to be better."
        )

    @cached_property
    def rows(self) -> list[RankedRow]:
        """The rows in the order of the groups, and in each of them in that of the table."""
        found = [self._row(row) for row in self.table.rows if row.label in self.ranking.places]
        order = list(GROUPS)
        return sorted(found, key=lambda own: order.index(own.group))

    @cached_property
    def parts(self) -> list[Part[RankedRow]]:
        """The rows in parts, of which the first one stands in the page of the track."""
        return parts_of(self.board, self.table, self.rows)

    @property
    def rows_file(self) -> str:
        """The address of the index of all rows; empty where all rows stand in the page of the track."""
        return data_file(self.board, self.table.id, "rows.json") if len(self.parts) > 1 else ""

    @property
    def rows_index(self) -> dict[str, Any]:
        """What the script must know of all rows, a list for each fact, in the order of the page."""
        groups, labels = list(self.groups), [shown.row.label for shown in self.rows]
        return {
            "labels": labels,
            "names": [shown.name for shown in self.rows],
            "groups": [groups.index(shown.group) for shown in self.rows],
            "worst": [shown.row.number("worst") for shown in self.rows],
            "utility": [shown.row.number("utility") for shown in self.rows],
            "words": [" ".join(badge.text for badge in shown.badges) for shown in self.rows],
            "control": [shown.place.control for shown in self.rows],
            "able": [int(shown.place.able) for shown in self.rows],
            "flagged": [int(bool(shown.place.flags)) for shown in self.rows],
            "complete": [int(shown.place.complete) for shown in self.rows],
            "silent": self.ranking.silent,
            "pages": [part.page for part in self.parts],
        }

    @property
    def groups(self) -> Mapping[Group, str]:
        """What stands above each group of rows; a winner is not said to be the best perhaps."""
        return {**GROUPS, "best": "Shown to be best"} if self.ranking.winner else GROUPS

    @cached_property
    def lead(self) -> Lead:
        """What the ranking found before all."""
        return lead_of(self.ranking, self.table, self.names)

    @cached_property
    def front(self) -> Front | None:
        """The drawing of protection against utility."""
        first = [shown.row.label for shown in self.parts[0].rows]
        return front_of(self.table, self.ranking, self.names, first, 440, 400)

    @cached_property
    def heat(self) -> Heat | None:
        """What each attack does to each entry."""
        return heat_of(self.scores, self.ranking, self.names) if self.scores is not None else None

    @property
    def index(self) -> str:
        """The address of the file that a browser computes from; empty without scores."""
        return data_file(self.board, self.comparison.id, "vectors.json") if self.comparison is not None else ""

    @cached_property
    def facets(self) -> dict[str, list[str]]:
        """The facets of the settings with more than one value each."""
        found: dict[str, dict[str, None]] = {}
        for condition in self.comparison.conditions if self.comparison is not None else ():
            for name, value in condition.facets.items():
                found.setdefault(name, {})[value] = None
        return {name: sorted(values) for name, values in found.items() if len(values) > 1}

    @property
    def pickers(self) -> list[Picker]:
        """The choices above the table."""
        return pickers_of(self.ranking, self.facets)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the page's script needs beside the index."""
        keys = (
            "over",
            "attack",
            "attacker",
            "unaware",
            "undefended",
            "winner",
            "alike",
            "control_tails",
            "broken_tail",
            "references",
            "chosen",
        )
        return {
            **{key: getattr(self.ranking, key) for key in keys},
            **self._about_rows,
            "groups": list(GROUPS.items()),
            "best": self.groups["best"],
            "rows": self.rows_file,
            "count": len(self.rows),
            "yardsticks": [data_file(self.board, id, "vectors.json") for id in self.ranking.yardsticks[1:]],
            "attacks": self.attacks,
            "attackNames": self.attack_names,
            "measure": brief(self.column("worst").label),
            "better": self.column("worst").better,
        }

    @property
    def _about_rows(self) -> dict[str, Any]:
        """What the script needs of rows; of a long ranking only names, as its index has everything else."""
        if len(self.parts) > 1:
            known = {*(shown.row.label for shown in self.parts[0].rows), self.ranking.winner, self.ranking.undefended}
            return {"names": {label: self.names[label] for label in self.names if label in known}}
        places = {
            label: {"control": p.control, "able": p.able, "flagged": bool(p.flags), "complete": p.complete}
            for label, p in self.ranking.places.items()
        }
        return {"names": self.names, "places": places, "silent": self.ranking.silent}

    def compared(self, *labels: str) -> str:
        """Return the address of the page that compares entries over all settings; empty without scores."""
        facts = [("c", self.index), *(("e", label) for label in labels)]
        return f"compare.html#{urlencode(facts)}" if self.index else ""

    @cached_property
    def multiples(self) -> tuple[str, list[Small]]:
        """The facet that small drawings divide the ranking by, and a drawing for each of its values."""
        own = [name for name in self.facets if name not in (*self.ranking.over, self.ranking.attacker)]
        facet = next((name for name in ("metric", *own) if name in own), "")
        if not facet or self.scores is None or self.comparison is None:
            return "", []
        of = [c.facets[facet] for c in self.comparison.conditions]
        means = {
            value: worst_case(
                self.comparison, self.scores.vectors, self.ranking, [c for c, known in enumerate(of) if known == value]
            )
            for value in self.facets[facet]
        }
        scale = scale_of((float(n) for own in means.values() for n in own), 4, 136)
        place = {label: i for i, label in enumerate(self.comparison.entries)}
        labels = [row.label for row in self.table.rows if row.label in place]
        decimals = self.column("worst").decimals
        return facet, [
            Small(
                display_name(value),
                [
                    (self.names[label], scale(x), f"{x:z.{decimals}f}")
                    if np.isfinite(x := float(found[place[label]]))
                    else (self.names[label], None, "not measured")
                    for label in labels
                ],
            )
            for value, found in means.items()
        ]

    @cached_property
    def findings(self) -> list[tuple[str, list[str]]]:
        """What is shown, ruled out and open, sentence by sentence."""
        names = {**self.attack_names, **self.names}
        return [
            (tier, [in_names(own.text, names) for own in found])
            for tier, found in by_tier(self.ranking.findings).items()
        ]

    @property
    def claim(self) -> str:
        """The headline of the ranking; what stands in for something real is said elsewhere on the page."""
        return in_names(claim_alone(self.ranking), self.names)

    @cached_property
    def _means(self) -> dict[str, dict[tuple[str, bool], float]]:
        """For each entry the mean protection by attack and whether it knows the defense."""
        if self.scores is None or self.comparison is None:
            return {}
        means = setting_means(self.comparison, self.scores.vectors)
        groups: dict[tuple[str, bool], list[int]] = {}
        for c, condition in enumerate(self.comparison.conditions):
            facets = condition.facets
            aware = facets[self.ranking.attacker] != self.ranking.unaware
            groups.setdefault((facets[self.ranking.attack], aware), []).append(c)
        found: dict[str, dict[tuple[str, bool], float]] = {}
        for i, label in enumerate(self.comparison.entries):
            own = {key: means[i, cs] for key, cs in sorted(groups.items())}
            found[label] = {key: float(np.nanmean(v)) for key, v in own.items() if not np.isnan(v).all()}
        return found

    def _row(self, row: Row) -> RankedRow:
        place = self.ranking.places[row.label]
        parts = {e.label: e for e in self.board.entries}
        entries = [parts[part] for part in dict.fromkeys([row.label, *row.label.split(" + ")]) if part in parts]
        return RankedRow(
            row,
            place,
            self.names[row.label],
            name_of(row.label).chips,
            self._group(row.label, place),
            self.lanes.of(row),
            self._worst_attack(place),
            badges_of(self.ranking, row.label, self.attack_names),
            self._bars(row.label),
            [image for image in self.gallery if image.example.entry == row.label][:4],
            _needed(row, place),
            entries,
            compute_again(self.board, [(entry.kind, entry.label) for entry in entries]),
            bibtex(
                self.board,
                self.release,
                row=row.label,
                author=", ".join(dict.fromkeys(e.author for e in entries if e.author)),
                version=", ".join(e.version for e in entries),
            ),
            details_page(self.board, self.table, row.label),
        )

    def _group(self, label: str, place: Place) -> Group:
        if place.control:
            return "control"
        if not place.complete:
            return "incomplete"
        if label == self.ranking.winner or label in self.ranking.may_be_best:
            return "best"
        return "stands" if place.able and not place.flags else "ruled-out"

    def _worst_attack(self, place: Place) -> str:
        """Return which attack is the worst most often, and how often."""
        name = next(iter(place.broken_by), "")
        return f"{self.attack_names[name]}, {place.broken_by[name]:.0%}" if name else ""

    def _bars(self, label: str) -> list[Bar]:
        largest = max((abs(v) for own in self._means.values() for v in own.values()), default=0.0) or 1.0
        decimals = self.column("worst").decimals
        return [
            Bar(
                self.attack_names.get(attack, display_name(attack)),
                f"{value:z.{decimals}f}",
                round(BAR * abs(value) / largest, 1),
                aware,
            )
            for (attack, aware), value in self._means.get(label, {}).items()
        ]


def ranking_views(
    board: Board, scores: Sequence[Scores], gallery: Sequence[GalleryExample], release: str
) -> list[RankingView]:
    """Return the rankings of a board, in its order."""
    behind: Mapping[str, Scores] = {own.comparison.id: own for own in scores}
    found = [(ranking, table_named(board, ranking.table)) for ranking in board.rankings]
    return [
        RankingView(board, ranking, table, behind.get(ranking.comparison), gallery, release)
        for ranking, table in found
        if table is not None
    ]


def row_text(value: Value | None, column: ColumnSpec) -> str:
    """Return the ends of an interval as text, or "" where there is none."""
    if value is None or value.low is None or value.high is None:
        return ""
    return f"{shown(Value(value=value.low), column)}–{shown(Value(value=value.high), column)}"


def _needed(row: Row, place: Place) -> int | None:
    worst = row.values.get("worst")
    had = (worst.n if worst.clusters is None else worst.clusters) if worst is not None else None
    return place.needed if place.needed is not None and had is not None and place.needed > had else None
