"""What the page of a track shows of its ranking: rows with their drawings, badges and details, and the pickers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np

from imharness.results.boards import Board
from imharness.results.comparisons import Comparison
from imharness.results.entries import Entry
from imharness.results.findings import by_tier
from imharness.results.rankings import Place, Ranking
from imharness.results.tables import ColumnSpec, Row, Table, Value
from imharness_leaderboard.addresses import data_file
from imharness_leaderboard.badges import Badge, badges_of
from imharness_leaderboard.chips import Name, name_of, short_names
from imharness_leaderboard.citations import bibtex
from imharness_leaderboard.commands import compute_again
from imharness_leaderboard.drawing import Scale, ends, scale_of
from imharness_leaderboard.entries import kept_words
from imharness_leaderboard.fronts import Front, front_of
from imharness_leaderboard.gallery import GalleryExample
from imharness_leaderboard.pickers import Picker, pickers_of
from imharness_leaderboard.scores import Scores
from imharness_leaderboard.tables import column_named, shown, table_named
from imharness_leaderboard.wording import brief
from imharness_leaderboard.worst_case import setting_means, worst_case

COLOURS = 6
"""The number of attacks that have a colour of their own; the others share one."""
DOT, SLOPE, STRIP, BAR = 150.0, 66.0, 100.0, 200.0
"""Widths of the drawings in a row, px."""


class Share(NamedTuple):
    """A piece of a strip: place and width in px, the number of its colour, and its tooltip."""

    x: float
    width: float
    colour: int
    title: str


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
    """A row of the ranking and everything behind it. Places in drawings are in px, None where there is no number."""

    row: Row
    place: Place
    name: Name
    low: float | None
    at: float | None
    high: float | None
    unaware: float | None
    aware: float | None
    strip: Sequence[Share]
    badges: Sequence[Badge]
    bars: Sequence[Bar]
    images: Sequence[GalleryExample]
    needed: int | None
    """How many units, or clusters, would tell it from the first; None where the present ones do, or if not known."""
    entries: Sequence[Entry]
    command: str
    bibtex: str

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
        self.names = short_names([row.label for row in table.rows])

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
        """The attacks, first the one that is the worst most often; the first `COLOURS` have a colour each."""
        total: dict[str, float] = {}
        for place in self.ranking.places.values():
            for name, share in place.broken_by.items():
                total[name] = total.get(name, 0.0) + share
        return sorted(total, key=lambda name: (-total[name], name))

    @cached_property
    def attack_names(self) -> dict[str, str]:
        """The short name of each attack."""
        return short_names(self.attacks)

    @cached_property
    def scale(self) -> Scale:
        """The scale of protection in the drawing of a row."""
        return scale_of(ends(row.values.get("worst") for row in self.table.rows), 4, DOT - 4)

    @cached_property
    def rise(self) -> Scale:
        """The scale of the slope from attackers that do not know the entry to attackers that know it."""
        values = [row.values.get(key) for row in self.table.rows for key in ("unaware", "aware")]
        return scale_of((v.value for v in values if v is not None), 22, 4)

    @cached_property
    def rows(self) -> list[RankedRow]:
        """The rows in the order of the table."""
        return [self._row(row) for row in self.table.rows if row.label in self.ranking.places]

    @cached_property
    def front(self) -> Front | None:
        """The large drawing of protection against utility."""
        return front_of(self.table, self.ranking, 760, 420)

    @cached_property
    def narrow_front(self) -> Front | None:
        """The same for a narrow screen."""
        return front_of(self.table, self.ranking, 350, 420)

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
            "silent",
            "chosen",
        )
        places = {
            label: {"control": p.control, "able": p.able, "flagged": bool(p.flags), "complete": p.complete}
            for label, p in self.ranking.places.items()
        }
        facts = {key: getattr(self.ranking, key) for key in keys}
        return {
            **facts,
            "places": places,
            "yardsticks": [data_file(self.board, id, "vectors.json") for id in self.ranking.yardsticks[1:]],
            "attacks": self.attacks,
            "names": self.names,
            "attackNames": self.attack_names,
            "colours": COLOURS,
            "measure": self.column("worst").label,
        }

    def compared(self, *labels: str) -> str:
        """Return the address of the page that compares entries under attacks that know them; empty without scores."""
        facts = [("c", self.index), *(("e", label) for label in labels)]
        facts.append((f"without.{self.ranking.attacker}", self.ranking.unaware))
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
                brief(value),
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
        return [(tier, [own.text for own in found]) for tier, found in by_tier(self.ranking.findings).items()]

    @cached_property
    def wins(self) -> Table | None:
        """The win matrix of the same scores, rows and columns by rank; None where no pair could be tested."""
        found = table_named(self.board, self.ranking.comparison)
        if found is None or not any(value.value is not None for row in found.rows for value in row.values.values()):
            return None
        order = {row.label: i for i, row in enumerate(self.table.rows)}
        last = len(order)
        return found.model_copy(
            update={
                "rows": tuple(sorted(found.rows, key=lambda row: order.get(row.label, last))),
                "columns": tuple(sorted(found.columns, key=lambda column: order.get(column.label, last))),
            }
        )

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
        place, worst = self.ranking.places[row.label], row.values.get("worst")
        parts = {e.label: e for e in self.board.entries}
        entries = [parts[part] for part in dict.fromkeys([row.label, *row.label.split(" + ")]) if part in parts]
        return RankedRow(
            row,
            place,
            name_of(row.label),
            _at(self.scale, worst.low if worst else None),
            _at(self.scale, worst.value if worst else None),
            _at(self.scale, worst.high if worst else None),
            _at(self.rise, row.number("unaware")),
            _at(self.rise, row.number("aware")),
            self._strip(place),
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
        )

    def _strip(self, place: Place) -> list[Share]:
        found, at = [], 0.0
        for name in self.attacks:
            share = place.broken_by.get(name, 0.0)
            if share:
                colour = min(self.attacks.index(name), COLOURS)
                found.append(
                    Share(round(at, 1), round(share * STRIP, 1), colour, f"{brief(name)}: the worst for {share:.0%}")
                )
                at += share * STRIP
        return found

    def _bars(self, label: str) -> list[Bar]:
        largest = max((abs(v) for own in self._means.values() for v in own.values()), default=0.0) or 1.0
        decimals = self.column("worst").decimals
        return [
            Bar(brief(attack), f"{value:z.{decimals}f}", round(BAR * abs(value) / largest, 1), aware)
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


def _at(scale: Scale, number: float | None) -> float | None:
    return None if number is None else scale(number)
