"""What an entry's page shows: the facts about a component, or about a row made of several, and all its scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from imharness.documents.entries import EVIDENCE, Entry, flags_in
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief, display_names, in_names
from imharness.documents.rankings import Kept, Place, Ranking
from imharness.documents.tables import ColumnSpec, Row, Table, joined, several
from imharness.results.labels import id_of
from imharness_leaderboard.addresses import entry_page
from imharness_leaderboard.gallery import GalleryExample
from imharness_leaderboard.scores import CONDITIONS
from imharness_leaderboard.tables import column_named, table_named, why

Rival = tuple[str, float | None, float | None]
"""Another entry's label, and the shares of conditions won and lost against it, %."""


@dataclass(frozen=True)
class Result:
    """How an entry did in a ranking; `ranked`: how many entries have a rank in it."""

    leaderboard: Leaderboard
    ranking: Ranking
    table: Table
    row: Row
    place: Place
    ranked: int

    @property
    def rank(self) -> str:
        """The rank in words, with its interval, as in "2 (1 to 4) of 6"; or why there is none."""
        rank = self.row.values.get("rank")
        if rank is None or rank.value is None:
            return why(rank)
        ends = "" if rank.low is None or rank.high is None else f" ({rank.low:.0f} to {rank.high:.0f})"
        return f"{rank.value:.0f}{ends} of {self.ranked}"

    @property
    def gate(self) -> str:
        """Whether the entry keeps enough utility, in words."""
        return keeps(self.place.gate) + "".join(f"; {brief(kept_words(answer))}" for answer in self.place.gate_numbers)

    @property
    def headline(self) -> str:
        """The most important sentences of the ranking on the entry, with numbers; empty for controls."""
        return in_names(" ".join(self.place.headline), display_names([row.label for row in self.table.rows]))

    @property
    def verdict(self) -> str:
        """One sentence on how the ranking judges the entry."""
        if self.place.control:
            return f"It is a control ({self.place.control}) and is never called the winner."
        if self.ranking.winner == self.row.label:
            return "It wins: shown to be better than each other entry that may win, and than every control."
        if self.row.label in self.ranking.may_be_best:
            return "It may be the best: no entry that may win is shown to be better."
        return f"It cannot win: it {reason}." if (reason := barred_words(self.place)) and not self.headline else ""

    @property
    def needed(self) -> str:
        """How many units separate the entry from the first one, in words; empty where that is not known."""
        column = column_named(self.table, "worst")
        if self.place.needed is None or column is None:
            return ""
        return f"about {several(self.place.needed, column.cluster_unit or column.unit or 'unit')}"


_KEEPS = {
    "passes": "keeps",
    "fails": "loses",
    "doubtful": "loses, tested alone",
}


def keeps(state: str) -> str:
    """Return whether an entry keeps what it must keep, in a word or two."""
    return _KEEPS.get(state, state)


def barred_words(position: Place) -> str:
    """Return what keeps an entry from winning, as what follows "it"; "" where nothing does, and for controls."""
    if position.control:
        return ""
    reasons = [] if position.complete else ["lacks settings that others have"]
    reasons += [f"is {position.doubt}: its protection is an upper bound"] if position.flags else []
    costs = {
        "fails": "costs too much",
        "doubtful": "costs too much, tested alone",
        "not measured": "was not measured on all that it must keep",
    }
    reasons += [costs[position.gate]] if position.gate in costs else []
    return joined(reasons)


def kept_words(answer: Kept) -> str:
    """Return a gate in words: its name, its threshold, and how far the entry is from it."""
    if answer.value is None:
        return f"{answer.label}, {answer.least}: not measured on every unit, or not defined without one"
    far = f"{answer.value:+z.{answer.decimals}f}"
    far += "" if answer.low is None else f" [{answer.low:+z.{answer.decimals}f}, {answer.high:+z.{answer.decimals}f}]"
    return f"{answer.label}, {answer.least}: {far} from the threshold"


@dataclass
class Appearance:
    """What a track's tables and gallery show of an entry.

    `results`: its places in rankings. `rows`, `conditions`: its rows in tables, and in tables of every condition.
    `columns`: the columns that are named after it. `rivals`: its wins and losses against each other entry.
    """

    leaderboard: Leaderboard
    results: list[Result] = field(default_factory=list)
    rows: list[tuple[Table, Row]] = field(default_factory=list)
    conditions: list[tuple[Table, list[Row]]] = field(default_factory=list)
    columns: list[tuple[Table, ColumnSpec]] = field(default_factory=list)
    rivals: list[tuple[Table, list[Rival]]] = field(default_factory=list)
    images: list[GalleryExample] = field(default_factory=list)


@dataclass
class EntryView:
    """An entry's page. `facts` is None for a row made of several components; `parts` then names them."""

    kind: str
    label: str
    page: str
    facts: Entry | None
    parts: list[tuple[str, str]] = field(default_factory=list)
    appearances: list[Appearance] = field(default_factory=list)

    @property
    def results(self) -> list[Result]:
        """Its places in the rankings of all tracks."""
        return [result for seen in self.appearances for result in seen.results]

    @property
    def made_of(self) -> list[tuple[str, str]]:
        """Kind and label of the components that make the entry; empty if one of its parts is not a component."""
        if self.facts is not None:
            return [(self.kind, self.label)]
        return self.parts if len(self.parts) == len(self.label.split(" + ")) else []


def ranked_variants(leaderboard: Leaderboard, view: EntryView) -> list[str]:
    """Return the labels of the entry's component with other parameters, as far as a leaderboard ranks them."""
    id = view.facts.id if view.facts is not None else ""
    labels = dict.fromkeys(label for ranking in leaderboard.rankings for label in ranking.places)
    return [label for label in labels if id and label != view.label and id_of(label) == id]


def standing_word(entry: Entry | None) -> str:
    """Return the status of a submitted entry: ``submitted``, ``flagged``, ``withdrawn``, ``reproduced`` or the like.

    Empty for an entry that was not submitted. A flag stays as long as it keeps the entry from winning.
    """
    decided = (
        [decision.decision for decision in entry.standing if decision.decision != EVIDENCE] if entry is not None else []
    )
    if entry is None or not decided:
        return ""
    flags = flags_in(entry.standing)
    word = flags[0].partition(":")[0] if flags else decided[-1]
    return "submitted" if word in ("added", "re-scored") else word


def entry_views(
    leaderboards: Sequence[Leaderboard], gallery: dict[str, list[GalleryExample]]
) -> dict[tuple[str, str], EntryView]:
    """Return the entries of all leaderboards, by kind and label."""
    views: dict[tuple[str, str], EntryView] = {}
    for leaderboard in leaderboards:
        results = _results(leaderboard)
        for view in _entries(leaderboard):
            existing = views.setdefault((view.kind, view.label), view)
            seen = Appearance(leaderboard, results.get(view.label, []))
            existing.appearances.append(_with_tables(seen, view.label, gallery.get(leaderboard.track, [])))
    return views


def _entries(leaderboard: Leaderboard) -> Iterator[EntryView]:
    """Yield the components of a leaderboard, then the rows of its main table and rankings that are made of several."""
    kinds = {entry.label: entry.kind for entry in leaderboard.entries}
    for entry in leaderboard.entries:
        yield EntryView(entry.kind, entry.label, entry_page(entry.kind, entry.label), entry)
    seen = set(kinds)
    ranked = {ranking.table for ranking in leaderboard.rankings}
    for main in [*leaderboard.tables[:1], *(table for table in leaderboard.tables[1:] if table.id in ranked)]:
        for row in main.rows:
            if row.label not in seen:
                seen.add(row.label)
                components = [
                    (kinds[component], component) for component in row.label.split(" + ") if component in kinds
                ]
                yield EntryView(main.entry, row.label, entry_page(main.entry, row.label), None, components)


def _results(leaderboard: Leaderboard) -> dict[str, list[Result]]:
    """Return how each entry did in the rankings of a leaderboard, by label."""
    results: dict[str, list[Result]] = {}
    for ranking in leaderboard.rankings:
        table = table_named(leaderboard, ranking.table)
        if table is not None:
            ranks = [row.values.get("rank") for row in table.rows]
            ranked = sum(rank is not None and rank.value is not None for rank in ranks)
            for row in table.rows:
                if row.label in ranking.places:
                    result = Result(leaderboard, ranking, table, row, ranking.places[row.label], ranked)
                    results.setdefault(row.label, []).append(result)
    return results


def _with_tables(appearance: Appearance, label: str, images: Sequence[GalleryExample]) -> Appearance:
    """Add to an appearance what the tables and the gallery of its leaderboard hold about the entry."""
    leaderboard = appearance.leaderboard
    appearance.images = [image for image in images if image.example.entry == label]
    compared = {comparison.id for comparison in leaderboard.comparisons}
    for table in leaderboard.tables:
        entry_rows = [row for row in table.rows if row.label == label]
        if table.id.startswith(CONDITIONS):
            appearance.conditions += [(table, entry_rows)] if entry_rows else []
        elif entry_rows and table.id in compared:
            appearance.rivals.append((table, _rivals(table, entry_rows[0])))
        else:
            appearance.rows += [(table, row) for row in entry_rows]
            appearance.columns += [(table, column) for column in table.columns if column.label == label]
    return appearance


def _rivals(table: Table, row: Row) -> list[Rival]:
    """Return the wins and losses of a row of a win-rate table, whose columns are the same entries as its rows."""
    rows = {other.label: other for other in reversed(table.rows)}
    own_key = {column.label: column.key for column in table.columns}.get(row.label, "")
    rivals = []
    for column in table.columns:
        if column.label != row.label:
            other = rows.get(column.label)
            won, lost = row.values.get(column.key), other.values.get(own_key) if other else None
            rivals.append((column.label, won.value if won else None, lost.value if lost else None))
    return rivals
