"""What the page of a track shows of its ranking: rows with their drawings, badges and details, and the pickers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from urllib.parse import urlencode

import numpy as np

from imharness.documents.comparisons import Comparison
from imharness.documents.entries import Entry
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness.documents.rankings import Place, Ranking
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness_leaderboard.addresses import data_file, details_page, track_slug, vectors_file
from imharness_leaderboard.attack_heatmap import Heat, heat_of
from imharness_leaderboard.citations import bibtex, compute_again
from imharness_leaderboard.finding_groups import TierView, tiers_of
from imharness_leaderboard.gallery import GalleryExample
from imharness_leaderboard.headline import Lead, lead_of
from imharness_leaderboard.interval_rows import Lanes, Small, lanes_of, smalls_of
from imharness_leaderboard.names import (
    NO_ATTACK,
    attack_names,
    display_name,
    display_names,
    in_names,
    name_of,
    spelled_measure,
)
from imharness_leaderboard.pareto import Front, front_of
from imharness_leaderboard.ranking_rows import (
    GROUPS,
    Bar,
    Further,
    Group,
    Part,
    Picker,
    RankedRow,
    badges_of,
    groups_of,
    parts_of,
    pickers_of,
    unseparated,
)
from imharness_leaderboard.scores import Scores, setting_means, worst_case
from imharness_leaderboard.tables import column_named, shown, table_named
from imharness_leaderboard.wording import last_sentence

BAR = 200.0
"""The width of the longest bar of an attack, px."""
COLUMNS = ("rank", "worst", "unaware", "aware", "gain", "p", "utility", "behind", "coverage")
"""The columns that every ranking has; others are further measures."""


class RankingView:
    """A ranking as its page shows it. `scores` are None where the store has no numbers behind it."""

    def __init__(
        self,
        leaderboard: Leaderboard,
        ranking: Ranking,
        table: Table,
        scores: Scores | None,
        gallery: Sequence[GalleryExample],
        release: str,
        secondary: Sequence[Scores] = (),
    ) -> None:
        self.leaderboard, self.ranking, self.table, self.release = leaderboard, ranking, table, release
        self.scores, self.gallery, self.secondary = scores, gallery, secondary
        self.names = display_names([row.label for row in table.rows])

    def column(self, key: str) -> ColumnSpec:
        """Return a column of the table."""
        spec = column_named(self.table, key)
        return spec or ColumnSpec(key=key, label=key, description="")

    @cached_property
    def comparison(self) -> Comparison | None:
        """The comparison behind the ranking."""
        return self.scores.comparison if self.scores is not None else None

    @cached_property
    def attacks(self) -> list[str]:
        """The attacks, first the one that is the worst most often; one is ``none`` where units survive all of them."""
        total: dict[str, float] = {}
        for standing in self.ranking.places.values():
            for name, share in standing.broken_by.items():
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
    def definition(self) -> str:
        """What the number of the ranking is, in one line; empty where its column does not say."""
        column = self.column("worst")
        name = spelled_measure(column.label.removesuffix(", worst attack")).removesuffix(" %")
        first = brief(column.description.partition(". ")[0].rstrip("."))
        begun = first if first[1:2].isupper() else f"{first[:1].lower()}{first[1:]}"
        return f"{name}: {begun}." if first else ""

    @property
    def lines(self) -> str:
        """The id of the lines that all rows have in common, on pages with rankings of several tracks, too."""
        return f"lines-{track_slug(self.leaderboard.track)}-{self.table.id}"

    @property
    def hollow(self) -> str:
        """What the hollow dot of a row is, as its column says it; empty where no row has one."""
        column = column_named(self.table, "unaware")
        if column is None or all(row.number("unaware") is None for row in self.table.rows):
            return ""
        return last_sentence(column.description)

    @property
    def bracketed(self) -> str:
        """What the rows in the bracket have in common."""
        return "Bracket: the first, and those that may win and are not separated from it."

    @cached_property
    def further(self) -> list[Further]:
        """The further measures of the ranking, in its table or in comparisons of their own."""
        columns = [
            Further(
                column.label,
                column.description,
                column.better,
                {row.label: shown(row.values.get(column.key), column) for row in self.table.rows},
            )
            for column in self.table.columns
            if column.key not in COLUMNS
        ]
        named = {column.label for column in columns}
        return columns + [
            _further(view, self.ranking) for view in self.secondary if view.comparison.measure not in named
        ]

    @cached_property
    def rows(self) -> list[RankedRow]:
        """The rows in the order of the groups, and in each of them in that of the table."""
        ranked_rows = [self._row(row) for row in self.table.rows if row.label in self.ranking.places]
        order = list(GROUPS)
        return sorted(ranked_rows, key=lambda ranked_row: order.index(ranked_row.group))

    @cached_property
    def parts(self) -> list[Part[RankedRow]]:
        """The rows in parts, of which the first one stands in the page of the track."""
        return parts_of(self.leaderboard, self.table, self.rows)

    @property
    def rows_file(self) -> str:
        """The address of the index of all rows; empty where all rows stand in the page of the track."""
        return data_file(self.leaderboard, self.table.id, "rows.json") if len(self.parts) > 1 else ""

    @cached_property
    def _groups(self) -> Mapping[str, Group]:
        return groups_of(self.table, self.ranking)

    @cached_property
    def lead(self) -> Lead:
        """The finding of the ranking that would give the site its title."""
        return lead_of(self.ranking, self.table.entry, self.names)

    @cached_property
    def front(self) -> Front | None:
        """The drawing of protection against utility."""
        first = [ranked_row.row.label for ranked_row in self.parts[0].rows]
        return front_of(self.table, self.ranking, self.names, first, 440, 400)

    @cached_property
    def heat(self) -> Heat | None:
        """What each attack does to each entry."""
        return heat_of(self.scores, self.ranking, self.names) if self.scores is not None else None

    @property
    def index(self) -> str:
        """The address of the file that a browser computes from; empty without scores."""
        return vectors_file(self.leaderboard, self.comparison.id) if self.comparison is not None else ""

    @cached_property
    def facets(self) -> dict[str, list[str]]:
        """The facets of the settings with more than one value each."""
        values_by_name: dict[str, dict[str, None]] = {}
        for condition in self.comparison.conditions if self.comparison is not None else ():
            for name, value in condition.facets.items():
                values_by_name.setdefault(name, {})[value] = None
        return {name: sorted(values) for name, values in values_by_name.items() if len(values) > 1}

    @property
    def pickers(self) -> list[Picker]:
        """The choices above the table."""
        return pickers_of(self.ranking, self.facets)

    def compared(self, *labels: str) -> str:
        """Return the address of the page that compares entries over all settings; empty without scores."""
        facts = [("c", self.index), *(("e", label) for label in labels)]
        return f"compare.html#{urlencode(facts)}" if self.index else ""

    @cached_property
    def multiples(self) -> tuple[str, list[Small]]:
        """The facet that small drawings divide the ranking by, and a drawing for each of its values."""
        dividing = [name for name in self.facets if name not in (*self.ranking.over, self.ranking.attacker)]
        facet = next((name for name in ("metric", *dividing) if name in dividing), "")
        if not facet or self.scores is None:
            return "", []
        return facet, smalls_of(self.scores, self.ranking, self.table, self.names, facet)

    @cached_property
    def findings(self) -> list[TierView]:
        """The most important findings: what is shown, ruled out and open."""
        return tiers_of(self.ranking, {**self.attack_names, **self.names})

    @property
    def all_findings(self) -> list[TierView]:
        """All findings, in the same form."""
        return tiers_of(self.ranking, {**self.attack_names, **self.names}, None)

    @property
    def claim(self) -> str:
        """The headline of the ranking; what stands in for something real is said elsewhere on the page."""
        return in_names(self.ranking.claim, self.names)

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
        means_by_label: dict[str, dict[tuple[str, bool], float]] = {}
        for i, label in enumerate(self.comparison.entries):
            by_group = {key: means[i, cs] for key, cs in sorted(groups.items())}
            means_by_label[label] = {key: float(np.nanmean(v)) for key, v in by_group.items() if not np.isnan(v).all()}
        return means_by_label

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        return {entry.label: entry for entry in self.leaderboard.entries}

    def _row(self, row: Row) -> RankedRow:
        standing = self.ranking.places[row.label]
        labels = dict.fromkeys([row.label, *row.label.split(" + ")])
        entries = [self._entries[label] for label in labels if label in self._entries]
        return RankedRow(
            row=row,
            place=standing,
            name=self.names[row.label],
            chips=name_of(row.label).chips,
            group=self._groups[row.label],
            near=row.label in unseparated(self.ranking),
            lane=self.lanes.of(row),
            worst_attack=self._worst_attack(standing),
            badges=badges_of(self.ranking, row.label, self.attack_names),
            bars=self._bars(row.label),
            images=[image for image in self.gallery if image.example.entry == row.label][:4],
            needed=_needed(row, standing),
            entries=entries,
            command=compute_again(self.leaderboard, [(entry.kind, entry.label) for entry in entries]),
            bibtex=bibtex(
                self.leaderboard,
                self.release,
                row=row.label,
                author=", ".join(dict.fromkeys(e.author for e in entries if e.author)),
                version=", ".join(e.version for e in entries),
            ),
            page=details_page(self.leaderboard, self.table, row.label),
        )

    def _worst_attack(self, standing: Place) -> str:
        """Return the first of `attacks` for one row, in the words of `worst_words`; "" where there is none."""
        name = next(iter(standing.broken_by), "")
        return worst_words(self.attack_names[name], standing.broken_by[name]) if name else ""

    def _bars(self, label: str) -> list[Bar]:
        largest = (
            max((abs(v) for group_means in self._means.values() for v in group_means.values()), default=0.0) or 1.0
        )
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
    leaderboard: Leaderboard, scores: Sequence[Scores], gallery: Sequence[GalleryExample], release: str
) -> list[RankingView]:
    """Return the rankings of a leaderboard, in its order."""
    behind: Mapping[str, Scores] = {score_set.comparison.id: score_set for score_set in scores}
    pairs = [(ranking, table_named(leaderboard, ranking.table)) for ranking in leaderboard.rankings]
    return [
        RankingView(
            leaderboard,
            ranking,
            table,
            behind.get(ranking.comparison),
            gallery,
            release,
            [behind[id] for id in secondary_comparisons(ranking) if id in behind],
        )
        for ranking, table in pairs
        if table is not None
    ]


def secondary_comparisons(ranking: Ranking) -> tuple[str, ...]:
    """Return the ids of the comparisons by which a winner has to be better, too: all but that of the ranking."""
    return ranking.secondary_measures[1:]


def worst_words(attack: str, share: float) -> str:
    """Return on which share of units an attack is the worst, as in "I-FGSM, 50%"; of "no attack": "84% survive"."""
    return f"{share:.0%} survive" if attack == NO_ATTACK else f"{attack}, {share:.0%}"


def _further(scores: Scores, ranking: Ranking) -> Further:
    """Return a secondary measure: the mean of each entry under the worst attack."""
    comparison = scores.comparison
    means = worst_case(comparison, scores.vectors, ranking, range(len(comparison.conditions)))
    texts = {
        label: f"{mean:z.{comparison.decimals}f}" if np.isfinite(mean) else "–"
        for label, mean in zip(comparison.entries, means.tolist(), strict=True)
    }
    return Further(comparison.measure, comparison.description, comparison.better, texts)


def interval_text(value: Value | None, column: ColumnSpec) -> str:
    """Return the interval of a value as text, as in "0.1–0.3"; "" where it has none."""
    if value is None or value.low is None or value.high is None:
        return ""
    return f"{shown(Value(value=value.low), column)}–{shown(Value(value=value.high), column)}"


def _needed(row: Row, standing: Place) -> int | None:
    """Return how many units, or clusters, would separate a row from the first one; None if it has them, or unknown."""
    worst = row.values.get("worst")
    if worst is None or standing.needed is None:
        return None
    measured = worst.n if worst.clusters is None else worst.clusters
    return standing.needed if measured is not None and standing.needed > measured else None
