"""What an entry's page shows: the facts about a component, or about a row made of several, and all its scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from imharness.results.boards import Board
from imharness.results.entries import EVIDENCE, Entry, flags_in
from imharness.results.labels import id_of
from imharness.results.rankings import Kept, Place, Ranking
from imharness.results.tables import ColumnSpec, Row, Table, joined, several
from imharness_leaderboard.addresses import entry_page
from imharness_leaderboard.badges import ahead_of
from imharness_leaderboard.conditions import CONDITIONS
from imharness_leaderboard.gallery import GalleryExample
from imharness_leaderboard.tables import column_named, table_named, why
from imharness_leaderboard.wording import brief, short

Rival = tuple[str, float | None, float | None]
"""Another entry's label, and the shares of conditions won and lost against it, %."""


@dataclass(frozen=True)
class Result:
    """How an entry did in a ranking; `ranked` entries have a place in it."""

    board: Board
    ranking: Ranking
    table: Table
    row: Row
    place: Place
    ranked: int

    @property
    def rank(self) -> str:
        """The place in words, with its interval, as in "2 (1 to 4) of 6"."""
        rank = self.row.values.get("rank")
        if rank is None or rank.value is None:
            return why(rank)
        ends = "" if rank.low is None or rank.high is None else f" ({rank.low:.0f} to {rank.high:.0f})"
        return f"{rank.value:.0f}{ends} of {self.ranked}"

    @property
    def gate(self) -> str:
        """Whether the entry keeps enough utility, in words."""
        return self.place.gate + "".join(f"; {brief(kept_words(own))}" for own in self.place.kept)

    @property
    def verdict(self) -> str:
        """One sentence on how the ranking judges the entry."""
        if self.place.control:
            return f"It is a control ({self.place.control}) and is never called the winner."
        if self.ranking.winner == self.row.label:
            return "It is the winner: the best protection among the entries that may win."
        if self.row.label in self.ranking.may_be_best:
            if ahead := ahead_of(self.ranking, self.row.label):
                worst = column_named(self.table, "worst")
                measure = worst.label if worst is not None else "the measure of the ranking"
                names, are = joined(short(ahead)), "is" if len(ahead) == 1 else "are"
                by = f"By {brief(measure)}, {names} {are} shown to protect better"
                return f"{by}; by another measure that decides it may be the best."
            return "It may be the best: no entry that may win is shown to protect better."
        reasons = ["it lacks some of the settings"] if not self.place.complete else []
        reasons += ["its protection is an upper bound only"] if self.place.flags else []
        reasons += ["it costs too much"] if self.place.gate == "fails" else []
        reasons += ["tested alone it costs too much"] if self.place.gate == "doubtful" else []
        reasons += ["what it costs was not measured on every unit"] if self.place.gate == "not measured" else []
        return f"It cannot win, because {joined(reasons)}." if reasons else ""

    @property
    def needed(self) -> str:
        """How many units are needed to tell the entry from the first place, in words; empty where that is not known."""
        column = column_named(self.table, "worst")
        if self.place.needed is None or column is None:
            return ""
        return f"about {several(self.place.needed, column.cluster_unit or column.unit or 'unit')}"


def kept_words(own: Kept) -> str:
    """Return what is asked of an entry and how far from it the entry is, in words."""
    if own.value is None:
        return f"{own.label}, {own.least}: not measured on every unit"
    far = f"{own.value:+z.{own.decimals}f}"
    far += "" if own.low is None else f" [{own.low:+z.{own.decimals}f}, {own.high:+z.{own.decimals}f}]"
    return f"{own.label}, {own.least}: {far} from the least that passes"


@dataclass
class Appearance:
    """What a track's tables and gallery hold about an entry.

    `results` are its places in rankings, `columns` the columns that are named after it, `rivals` its wins and losses
    against each other entry.
    """

    board: Board
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
        """Kind and label of the components with which its cells are found; empty where a part is not a component."""
        if self.facts is not None:
            return [(self.kind, self.label)]
        return self.parts if len(self.parts) == len(self.label.split(" + ")) else []


def ranked_variants(board: Board, view: EntryView) -> list[str]:
    """Return the labels under which a component with other parameters is ranked on a board."""
    id = view.facts.id if view.facts is not None else ""
    labels = dict.fromkeys(label for own in board.rankings for label in own.places)
    return [label for label in labels if id and label != view.label and id_of(label) == id]


def standing_word(entry: Entry | None) -> str:
    """Return the status of a submitted entry: ``submitted``, ``flagged``, ``withdrawn``, ``reproduced`` or the like.

    Empty for an entry that was not submitted. A flag stays as long as it keeps the entry from winning.
    """
    decided = [own.decision for own in entry.standing if own.decision != EVIDENCE] if entry is not None else []
    if entry is None or not decided:
        return ""
    flags = flags_in(entry.standing)
    word = flags[0].partition(":")[0] if flags else decided[-1]
    return "submitted" if word in ("added", "re-scored") else word


def entry_views(boards: Sequence[Board], gallery: dict[str, list[GalleryExample]]) -> dict[tuple[str, str], EntryView]:
    """Return the entries of all boards, by kind and label."""
    views: dict[tuple[str, str], EntryView] = {}
    for board in boards:
        results = _results(board)
        for view in _entries(board):
            known = views.setdefault((view.kind, view.label), view)
            seen = Appearance(board, results.get(view.label, []))
            known.appearances.append(_with_tables(seen, view.label, gallery.get(board.track, [])))
    return views


def _entries(board: Board) -> Iterator[EntryView]:
    """Yield the components of a board, then the rows of its main table and rankings that are made of several."""
    kinds = {entry.label: entry.kind for entry in board.entries}
    for entry in board.entries:
        yield EntryView(entry.kind, entry.label, entry_page(entry.kind, entry.label), entry)
    seen = set(kinds)
    ranked = {ranking.table for ranking in board.rankings}
    for main in [*board.tables[:1], *(table for table in board.tables[1:] if table.id in ranked)]:
        for row in main.rows:
            if row.label not in seen:
                seen.add(row.label)
                parts = [(kinds[part], part) for part in row.label.split(" + ") if part in kinds]
                yield EntryView(main.entry, row.label, entry_page(main.entry, row.label), None, parts)


def _results(board: Board) -> dict[str, list[Result]]:
    """Return how each entry did in the rankings of a board, by label."""
    found: dict[str, list[Result]] = {}
    for ranking in board.rankings:
        table = table_named(board, ranking.table)
        if table is not None:
            ranks = [row.values.get("rank") for row in table.rows]
            ranked = sum(rank is not None and rank.value is not None for rank in ranks)
            for row in table.rows:
                if row.label in ranking.places:
                    own = Result(board, ranking, table, row, ranking.places[row.label], ranked)
                    found.setdefault(row.label, []).append(own)
    return found


def _with_tables(found: Appearance, label: str, images: Sequence[GalleryExample]) -> Appearance:
    """Add to an appearance what the tables and the gallery of its board hold about the entry."""
    board = found.board
    found.images = [image for image in images if image.example.entry == label]
    compared = {comparison.id for comparison in board.comparisons}
    for table in board.tables:
        own = [row for row in table.rows if row.label == label]
        if table.id.startswith(CONDITIONS):
            found.conditions += [(table, own)] if own else []
        elif own and table.id in compared:
            found.rivals.append((table, _rivals(table, own[0])))
        else:
            found.rows += [(table, row) for row in own]
            found.columns += [(table, column) for column in table.columns if column.label == label]
    return found


def _rivals(table: Table, row: Row) -> list[Rival]:
    """Return the wins and losses of a row of a win-rate table, whose columns are the same entries as its rows."""
    rows = {other.label: other for other in reversed(table.rows)}
    own_key = {column.label: column.key for column in table.columns}.get(row.label, "")
    found = []
    for column in table.columns:
        if column.label != row.label:
            other = rows.get(column.label)
            won, lost = row.values.get(column.key), other.values.get(own_key) if other else None
            found.append((column.label, won.value if won else None, lost.value if lost else None))
    return found
