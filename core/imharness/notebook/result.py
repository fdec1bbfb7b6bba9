"""The result of an evaluation: tables, the rows behind them, what failed, and how each is shown. Imports no torch."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from imharness.documents.comparisons import Comparison
from imharness.documents.findings import Finding, cannot_win, first_sentences
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import display_names, in_names
from imharness.documents.rankings import Ranking
from imharness.documents.tables import Table, joined, several
from imharness.errors import UsageError, unknown_name
from imharness.exports import Sheet, latex, markdown, sheet_of
from imharness.notebook.arguments import listed, naming, text
from imharness.notebook.writing import (
    WIDEST,
    as_frame,
    as_html,
    as_text,
    folded,
    is_users,
    leading,
    pandas_module,
    users_first,
)
from imharness.ranking.headline import headline_of_row
from imharness.results.labels import components_in, method_of, printed, without_settings
from imharness.results.sweeps import Cause, Missing, causes_of

if TYPE_CHECKING:
    import pandas

    from imharness.notebook.picture import Picture

Columns = Mapping[str, npt.NDArray[Any]]
"""Rows as columns of one length."""
Paired = tuple[Comparison, npt.NDArray[np.floating]]
"""Entries that were measured on the same units, and their scores ``(entries, total)``; see `Comparison`."""
SHOWN_FAILURES = 5


@dataclass(frozen=True, repr=False)
class ResultTable:
    """One table: entries in rows, best first, and numbers with intervals in columns.

    `spec` is the whole table as data, `leaderboard` the leaderboard that it belongs to, if any.
    """

    spec: Table
    leaderboard: Leaderboard | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each row."""
        return tuple(row.label for row in self.spec.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The key of each column."""
        return tuple(column.key for column in self.spec.columns)

    def __len__(self) -> int:
        return len(self.spec.rows)

    def column(self, key: str) -> npt.NDArray[np.float64]:
        """Return the numbers of a column, float64 ``(rows,)``, NaN where there is none."""
        _known("column", key, self.columns)
        values = [row.values[key].value if key in row.values else None for row in self.spec.rows]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a data frame with a row for each entry, the best first; raises `Unavailable` without pandas.

        Its columns, here and in `imharness.load_leaderboard`, are for each column KEY of the table:

        - ``KEY``: the number, in the unit that the column's label has: a label with % counts to 100, one with dB, ms,
          GB or px has that unit, and a number whose label has none is a plain one, such as a share or a correlation.
        - ``KEY_low`` and ``KEY_high``: the ends of the 95% interval, in the same unit; left out where there is none.
        - ``KEY_n``: how many units the number is from, such as images; left out where nothing was counted.

        Where an entry has no number, the cell is NaN. ``frame.attrs`` has the title and caption of the table, and by
        KEY its ``labels`` with the units, as tables and exported files show them, its ``descriptions`` in a sentence,
        and in ``counted`` what ``KEY_n`` counts.
        """
        return as_frame(self.spec)

    def to_latex(self, *, columns: Sequence[str] = (), caption: str = "") -> str:
        """Return LaTeX for the packages adjustbox and booktabs; see `imharness.exports.sheet_of`."""
        return latex(self._sheet(columns, caption))

    def to_markdown(self, *, columns: Sequence[str] = (), caption: str = "") -> str:
        """Return Markdown; arguments as in `to_latex`."""
        return markdown(self._sheet(columns, caption))

    def _sheet(self, columns: Sequence[str], caption: str) -> Sheet:
        named = [columns] if isinstance(columns, str) else listed("columns", columns, "a list of names of columns")
        wanted = [text("columns", name, "names of columns") for name in named]
        text("caption", caption)
        with naming("columns"):
            return sheet_of(self.spec, self.leaderboard, columns=wanted, caption=caption)

    def short(self) -> Sheet:
        """Return the leading columns as a sheet, the rows of the user's objects first."""
        return self._with(leading(self.spec))

    def _with(self, columns: Sequence[str]) -> Sheet:
        return sheet_of(users_first(self.spec), self.leaderboard, columns=columns)

    @property
    def _baseline(self) -> str:
        """The entry that all others are compared with, "" where the table has no ranking."""
        rankings = self.leaderboard.rankings if self.leaderboard is not None else ()
        return next((ranking.baseline for ranking in rankings if ranking.table == self.spec.id), "")

    def _html(self, sheet: Sheet, notes: Sequence[str] = ()) -> str:
        """Return a sheet in HTML, with its caption, its notes and further ones folded."""
        notes = [sheet.caption, *(f"{letter}: {line}" for letter, line in sheet.notes), *notes]
        return as_html(sheet, self._baseline) + folded(f"Notes ({len(notes)})", notes)

    def _repr_html_(self) -> str:
        return self._html(self._with([]))

    def __repr__(self) -> str:
        keys = leading(self.spec)
        while len(keys) > 1 and len(max(self._rows(keys), key=len)) > WIDEST:
            keys.pop()
        return as_text(self._with(keys), self._baseline)

    def _rows(self, keys: Sequence[str]) -> list[str]:
        """Return the head and the rows of the table as text with these columns, without the title and the notes."""
        return as_text(self._with(keys), self._baseline).split("\n")[1 : len(self) + 2]


@dataclass(frozen=True, repr=False)
class ResultRow:
    """One entry of a result: its numbers in a table, by default the main one; `imharness.compare` takes it."""

    result: Result
    label: str
    table: str | None = None

    @property
    def values(self) -> dict[str, float]:
        """The numbers of the entry by column of its table, NaN where there is none."""
        table = self.result.table(self.table)
        index = table.labels.index(self.label)
        return {key: float(table.column(key)[index]) for key in table.columns}

    def __repr__(self) -> str:
        return f"{self.label}: " + ", ".join(f"{key} {value:.4g}" for key, value in self.values.items())


@dataclass(frozen=True, repr=False)
class Result:
    """What was measured: `tables` by name, `rows` by step, and `failed`.

    Args:
        title: what was measured, in a few words.
        table_list: the tables; the first is the main one.
        read: step -> function that reads its rows.
        failed: what has no result because it failed -> why, in one line.
        missing: what was not planned because something is not on this machine.
        paired: scores of entries on the same units, for `imharness.compare`.
        leaderboards: table -> the leaderboard that it belongs to, if any; it tells controls, winners and how far the
        run was.
    """

    title: str
    table_list: Sequence[Table] = ()
    read: Mapping[str, Callable[[], Columns]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[Missing] = ()
    paired: Sequence[Paired] = ()
    leaderboards: Mapping[str, Leaderboard] = field(default_factory=dict)

    @property
    def flags(self) -> dict[str, tuple[str, ...]]:
        """Label -> why its numbers are not to be trusted: quick checks that it failed, and what an audit found.

        For an entry of a ranking these are the flags that the ranking states for it, if any.
        """
        of_places = {label: standing.flags for ranking in self.rankings for label, standing in ranking.places.items()}
        failed_checks = {
            entry.label: entry.failed_checks
            for leaderboard in self.leaderboards.values()
            for entry in leaderboard.entries
        }
        labels = {**of_places, **failed_checks}
        flags = {label: of_places.get(label) or failed_checks.get(label, ()) for label in labels}
        return {label: lines for label, lines in flags.items() if lines}

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """Who wins, and how certain that is, the main ranking first."""
        leaderboards = {id(leaderboard): leaderboard for leaderboard in self.leaderboards.values()}  # each once
        return tuple(ranking for leaderboard in leaderboards.values() for ranking in leaderboard.rankings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was shown, ruled out or left open, sentence by sentence, each with its numbers."""
        return tuple(finding for ranking in self.rankings for finding in ranking.findings)

    @property
    def tables(self) -> dict[str, ResultTable]:
        """All tables by name, the main one first."""
        return {table.id: ResultTable(table, self.leaderboards.get(table.id)) for table in self.table_list}

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps that have rows."""
        return tuple(self.read)

    @property
    def comparisons(self) -> tuple[str, ...]:
        """The names of the comparisons that `imharness.compare` can use."""
        return tuple(comparison.id for comparison, _ in self.paired)

    def table(self, name: str | None = None) -> ResultTable:
        """Return a table by name, or the main one; raises `UsageError` for an unknown name."""
        if not self.table_list:
            raise UsageError(f"{self.title} has no table{self._why()}.")
        return self.tables[self.table_list[0].id if name is None else _known("table", name, self.tables)]

    def __getitem__(self, name: str) -> ResultRow:
        """Return an entry, by its label, by its label without the owner or without settings, or by its display name.

        It is looked for in all tables, the main one first. The name of a function, such as ``my_blur``, means the entry
        ``my-blur`` that was made of it. If the result is of several tracks that have the entry, put the track before
        the name, as in ``iqa/none``. Raises `UsageError` for a name that no entry has, or several.
        """
        wanted = text("entry", name, "a name")
        tracks = dict.fromkeys(table.id.rpartition("/")[0] for table in self.table_list)
        track, slash, rest = wanted.partition("/")
        chosen, wanted = ([track], rest) if slash and track in tracks else (list(tracks), wanted)
        entries = {track: row for track in chosen if (row := self._entry(track, wanted)) is not None}
        if len(entries) > 1:
            written = " or ".join(repr(f"{track}/{wanted}") for track in entries)
            raise UsageError(f"entry: {wanted!r} is in {joined(entries)}; write {written}.")
        if not entries:
            labels = dict.fromkeys(row.label for table in self.table_list for row in table.rows)
            raise (
                _unknown("entry", name, list(map(printed, labels)))
                if labels
                else UsageError(f"{self.title} has no table{self._why()}.")
            )
        return next(iter(entries.values()))

    def _entry(self, track: str, name: str) -> ResultRow | None:
        """Return the entry of a track that a name means, from the first table in which it means exactly one.

        A name is compared first with labels, then with labels without their owner, then with display names, then with
        labels without their settings.
        """
        names = {name, name.replace("_", "-")}
        for table in (table for table in self.table_list if table.id.rpartition("/")[0] == track):
            labels = list(dict.fromkeys(row.label for row in table.rows))
            display_name = display_names(labels)
            names_by_precedence: list[dict[str, set[str]]] = [
                {label: {label} for label in labels},
                {label: {method_of(label)} for label in labels},
                {label: {display_name[label], *map(method_of, components_in(label))} for label in labels},
                {label: set(map(method_of, components_in(without_settings(label)))) for label in labels},
            ]
            for names_of in names_by_precedence:
                matches = [label for label in labels if names & names_of[label]]
                if len(matches) == 1:
                    return ResultRow(self, matches[0], table.id)
        return None

    def rows(self, step: str | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return the rows of a step as columns of one length, each with the components and options of its task.

        Without a name, these are the rows of the only step. Raises `UsageError` for a step without rows.
        """
        name = next(iter(self.read)) if step is None and len(self.read) == 1 else step
        if name is None:
            raise UsageError(f"step: say which one; {self.title} has: {', '.join(self.read) or 'none'}.")
        return dict(self.read[_known("step", name, self.read)]())

    def to_dataframe(self, name: str | None = None, *, step: str | None = None) -> pandas.DataFrame:
        """Return a table, see `ResultTable.to_dataframe` for its units, or the rows of a step as they are stored.

        Scores in rows are in the metric's own unit. Raises `Unavailable` without pandas.
        """
        if step is None:
            return self.table(name).to_dataframe()
        rows = self.rows(step)
        return pandas_module().DataFrame(rows)

    def to_latex(self, name: str | None = None, *, columns: Sequence[str] = (), caption: str = "") -> str:
        """Return a table in LaTeX for the packages adjustbox and booktabs, with all columns or the named ones."""
        return self.table(name).to_latex(columns=columns, caption=caption)

    def to_markdown(self, name: str | None = None, *, columns: Sequence[str] = (), caption: str = "") -> str:
        """Return a table in Markdown, with all columns or the named ones."""
        return self.table(name).to_markdown(columns=columns, caption=caption)

    def plot(self, name: str | None = None, column: str | None = None) -> Picture:
        """Return a picture of a column of a table with its intervals, by default the one that ranks the table."""
        from imharness.notebook.picture import dots

        return dots(self.table(name).spec, None if column is None else text("column", column))

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The first sentences of a result: on each object of the user's, or without such objects the headlines.

        Of an object, the checks come first that it failed, and then what each ranking says of it. If no ranking has it,
        the sentence states its position in the first table that has it. A sentence has at most 20 words, not counting
        the reason of a failed check.
        """
        users = dict.fromkeys(row.label for table in self.table_list for row in table.rows if is_users(row.label))
        if not users:
            return tuple(dict.fromkeys(in_names(claim, self._names) for claim in self._claims()))
        doubts = [f"{label} {cannot_win(lines)}." for label, lines in self.flags.items() if label in users]
        return tuple(in_names(line, self._names) for line in [*doubts, *self._about(users)])

    def _about(self, labels: Iterable[str]) -> Iterator[str]:
        """Yield what rankings, or else tables, say of entries."""
        titles = {table.id: table.title for table in self.table_list}
        for label in labels:
            rankings = [ranking for ranking in self.rankings if ranking.places.get(label) is not None]
            for ranking in rankings:
                title = f"{titles.get(ranking.table, ranking.table)}: " if len(rankings) > 1 else ""
                yield title + " ".join(ranking.places[label].headline)
            if not rankings:
                tables = [table for table in self.table_list if any(row.label == label for row in table.rows)]
                yield from filter(None, [headline_of_row(tables[0], label)])

    @property
    def _names(self) -> dict[str, str]:
        return display_names(list(dict.fromkeys(row.label for table in self.table_list for row in table.rows)))

    def _claims(self) -> Iterator[str]:
        """Yield the headline of each ranking; for a table other than the main one, after its name."""
        main = self.table_list[0].id if self.table_list else ""
        for ranking in self.rankings:
            claim = ranking.claim or f"See the table {ranking.table}."
            yield claim if ranking.table == main else f"{ranking.table}: {claim}"

    def _why(self) -> str:
        if self.failed:
            return f": {several(len(self.failed), 'task')} failed, such as {_cause(causes_of(self.failed)[0])}"
        if self.missing:
            return f": {self.missing[0].what} is missing ({self.missing[0].reason}; {self.missing[0].remedy})"
        return ""

    def _units(self) -> str:
        """Say how many independent units the main ranking rests on; empty without a ranking."""
        ranked = next((ranking.comparison for ranking in self.rankings), "")
        ranked_comparison = next((comparison for comparison, _ in self.paired if comparison.id == ranked), None)
        if ranked_comparison is None or not ranked_comparison.unit:
            return ""
        units = {name for names in ranked_comparison.unit_sets for name in names}
        sources = {name for names in ranked_comparison.clusters for name in names}
        source = ranked_comparison.cluster_unit or "source"
        of = f" of {several(len(sources), source)}" if sources and source != ranked_comparison.unit else ""
        return f"{several(len(units), ranked_comparison.unit)}{of}"

    def _failures(self) -> list[str]:
        lines = list(map(_cause, causes_of(self.failed)))[:SHOWN_FAILURES]
        return [f"{several(len(self.failed), 'task')} failed:", *lines] if self.failed else []

    def _notes(self) -> list[str]:
        """Return what readers of the main table must know besides: who wins, the findings, what is missing."""
        users = {row.label for table in self.table_list for row in table.rows if is_users(row.label)}
        lines = [f"{label} {cannot_win(lines)}." for label, lines in self.flags.items() if label not in users]
        lines += self._claims() if users else []
        for ranking in self.rankings:
            if self._is_about(ranking):
                lines += [f"Stand-ins: {'; '.join(ranking.proxies)}."] if ranking.proxies else []
                lines += first_sentences(ranking.findings, "in `findings`")
        gaps = list(dict.fromkeys(f"Missing: {gap.what} ({gap.reason})" for gap in self.missing))
        others = [f"Tables: {', '.join(self.tables)}."] if len(self.table_list) > 1 else []
        return [*map(printed, dict.fromkeys(lines)), *gaps[:SHOWN_FAILURES], *others]

    def _is_about(self, ranking: Ranking) -> bool:
        """Say whether a ranking is about entries of the main table, as one of defenses is not about metrics."""
        first = {row.label for table in self.table_list[:1] for row in table.rows}
        return not first or bool(first & set(ranking.places))

    def _repr_html_(self) -> str:
        def paragraph(line: str) -> str:
            return f"<p>{html.escape(line)}</p>"

        verdicts = "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in self.verdicts)
        head = paragraph(f"{self.title}: {units}") if (units := self._units()) else ""
        failures = "".join(map(paragraph, self._failures()))
        if not self.table_list:
            nothing = paragraph(f"{self.title}: no table")
            return verdicts + head + nothing + failures + folded("Notes", self._notes())
        main = self.table()
        return verdicts + head + failures + main._html(main.short(), self._notes())

    def __repr__(self) -> str:
        head = [f"{self.title}: {units}"] if (units := self._units()) else []
        table = repr(self.table()) if self.table_list else f"{self.title}: no table"
        return "\n".join([*self.verdicts, *head, table, *self._failures(), *self._notes()])


def _cause(cause: Cause) -> str:
    first, *others = cause.tasks
    return f"{first}: {cause.why}" + (f" (so did {several(len(others), 'other task')})" if others else "")


def _known(what: str, name: Any, choices: Mapping[str, object] | Sequence[str]) -> str:
    """Return a name; raises `UsageError` if it is unknown."""
    if text(what, name, "a name") not in choices:
        raise _unknown(what, name, choices)
    return str(name)


def _unknown(what: str, name: str, choices: Mapping[str, object] | Sequence[str]) -> UsageError:
    return UsageError(unknown_name(f"{what}: no {what} is called {name!r}", name, choices))
