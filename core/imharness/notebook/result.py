"""The result of an evaluation: tables, the rows behind them, what failed, and how each is shown. Imports no torch."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from imharness.errors import UsageError, unknown_name
from imharness.exports import Sheet, latex, markdown, sheet_of
from imharness.exports.sheets import printed
from imharness.notebook.arguments import listed, naming, text
from imharness.notebook.writing import as_frame, as_html, as_text, leading, pandas_module
from imharness.results.boards import Board
from imharness.results.comparisons import Comparison
from imharness.results.findings import Finding, cannot_win, first_sentences
from imharness.results.labels import method_of
from imharness.results.rankings import Ranking
from imharness.results.sweeps import Cause, Missing, causes_of
from imharness.results.tables import Table, several

if TYPE_CHECKING:
    import pandas

    from imharness.notebook.picture import Picture

Columns = Mapping[str, npt.NDArray[Any]]
"""Rows as columns of one length."""
Paired = tuple[Comparison, npt.NDArray[np.floating]]
"""Entries that were measured on the same units, and their scores ``(entries, total)``."""
SHOWN_FAILURES = 5


@dataclass(frozen=True, repr=False)
class ResultTable:
    """One table: entries in rows, best first, and numbers with intervals in columns.

    `spec` is the whole table as data, `board` the board that it belongs to, if any.
    """

    spec: Table
    board: Board | None = None

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
        found = [row.values[key].value if key in row.values else None for row in self.spec.rows]
        return np.array([np.nan if value is None else value for value in found], dtype=np.float64)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a data frame with a row for each entry, the best first; raises `Unavailable` without pandas.

        Its columns, here and in `imharness.load_board`, are for each column KEY of the table:

        - ``KEY``: the number, in the unit that the column's label has: a label with % counts to 100, one with dB, ms,
          GB or px has that unit, and a number whose label has none is a plain one, such as a share or a correlation.
        - ``KEY_low`` and ``KEY_high``: the ends of the 95% interval, in the same unit; left out where there is none.
        - ``KEY_n``: how many units the number is from, such as images; left out where nothing was counted.

        NaN stands where an entry has no number. ``frame.attrs`` has the title and caption of the table, and by KEY its
        ``labels`` with the units, as tables and exported files show them, its ``descriptions`` in a sentence, and in
        ``counted`` what ``KEY_n`` counts.
        """
        return as_frame(self.spec)

    def to_latex(self, *, columns: Sequence[str] = (), caption: str = "") -> str:
        """Return LaTeX for the package booktabs; see `imharness.exports.sheet_of`."""
        return latex(self._sheet(columns, caption))

    def to_markdown(self, *, columns: Sequence[str] = (), caption: str = "") -> str:
        """Return Markdown; arguments as in `to_latex`."""
        return markdown(self._sheet(columns, caption))

    def _sheet(self, columns: Sequence[str], caption: str) -> Sheet:
        named = [columns] if isinstance(columns, str) else listed("columns", columns, "a list of names of columns")
        wanted = [text("columns", name, "names of columns") for name in named]
        text("caption", caption)
        with naming("columns"):
            return sheet_of(self.spec, self.board, columns=wanted, caption=caption)

    def short(self) -> Sheet:
        """Return the leading columns as a sheet."""
        return sheet_of(self.spec, self.board, columns=leading(self.spec))

    def _repr_html_(self) -> str:
        return as_html(sheet_of(self.spec, self.board))

    def __repr__(self) -> str:
        return as_text(self.short())


@dataclass(frozen=True, repr=False)
class ResultRow:
    """One entry of a result: its numbers in the main table, and an argument of `imharness.compare`."""

    result: Result
    label: str

    @property
    def values(self) -> dict[str, float]:
        """The numbers of the entry by column of the main table, NaN where there is none."""
        table = self.result.table()
        place = table.labels.index(self.label)
        return {key: float(table.column(key)[place]) for key in table.columns}

    def __repr__(self) -> str:
        return f"{self.label}: " + ", ".join(f"{key} {value:.4g}" for key, value in self.values.items())


@dataclass(frozen=True, repr=False)
class Result:
    """What was measured: `tables` by name, `rows` by step, and `failed`.

    Args:
        title: what was measured, in a few words.
        made: the tables; the first is the main one.
        read: step -> function that reads its rows.
        failed: what has no result because it failed -> why, in one line.
        missing: what was not planned because something is not on this machine.
        paired: scores of entries on the same units, for `imharness.compare`.
        boards: table -> the board that it belongs to, if any; it tells controls, winners and how far the run was.
    """

    title: str
    made: Sequence[Table] = ()
    read: Mapping[str, Callable[[], Columns]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[Missing] = ()
    paired: Sequence[Paired] = ()
    boards: Mapping[str, Board] = field(default_factory=dict)

    @property
    def flags(self) -> dict[str, tuple[str, ...]]:
        """Label -> why its numbers are not to be trusted: quick checks that it failed, and what an audit found."""
        places = {label: place.flags for ranking in self.rankings for label, place in ranking.places.items()}
        checks = {own.label: own.failed_checks for board in self.boards.values() for own in board.entries}
        found = {label: places.get(label) or checks.get(label, ()) for label in {**places, **checks}}
        return {label: lines for label, lines in found.items() if lines}

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """Who wins, and how certain that is, the main ranking first."""
        return tuple(own for board in {id(b): b for b in self.boards.values()}.values() for own in board.rankings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was shown, ruled out or left open, sentence by sentence, each with its numbers."""
        return tuple(finding for ranking in self.rankings for finding in ranking.findings)

    @property
    def tables(self) -> dict[str, ResultTable]:
        """All tables by name, the main one first."""
        return {table.id: ResultTable(table, self.boards.get(table.id)) for table in self.made}

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
        if not self.made:
            raise UsageError(f"{self.title} has no table{self._why()}.")
        return self.tables[self.made[0].id if name is None else _known("table", name, self.tables)]

    def __getitem__(self, name: str) -> ResultRow:
        """Return an entry of the main table, by its label or by its label without the owner.

        The name of a function, such as ``my_blur``, means the entry ``my-blur`` that was made of it.
        """
        labels = self.table().labels
        names = {text("entry", name, "a name"), name.replace("_", "-")}
        found = [label for label in labels if names & {label, method_of(label)}]
        if len(found) != 1:
            raise _unknown("entry", name, list(map(printed, labels)))
        return ResultRow(self, found[0])

    def rows(self, step: str | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return the rows of a step as columns of one length, each with the components and options of its cell.

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
        """Return a table in LaTeX for the package booktabs, with all columns or the named ones."""
        return self.table(name).to_latex(columns=columns, caption=caption)

    def to_markdown(self, name: str | None = None, *, columns: Sequence[str] = (), caption: str = "") -> str:
        """Return a table in Markdown, with all columns or the named ones."""
        return self.table(name).to_markdown(columns=columns, caption=caption)

    def plot(self, name: str | None = None, column: str | None = None) -> Picture:
        """Return a picture of a column of a table with its intervals, by default the one that ranks the table."""
        from imharness.notebook.picture import dots

        return dots(self.table(name).spec, None if column is None else text("column", column))

    def _is_about(self, ranking: Ranking) -> bool:
        """Say whether a ranking is about entries of the main table, as one of defenses is not about metrics."""
        first = {row.label for own in self.made[:1] for row in own.rows}
        return not first or bool(first & set(ranking.places))

    def _why(self) -> str:
        if self.failed:
            return f": {several(len(self.failed), 'cell')} failed, such as {_cause(causes_of(self.failed)[0])}"
        if self.missing:
            return f": {self.missing[0].what} is missing ({self.missing[0].reason}; {self.missing[0].remedy})"
        return ""

    def _units(self) -> str:
        """Say how many independent units the main ranking rests on; empty without a ranking."""
        ranked = next((ranking.comparison for ranking in self.rankings), "")
        own = next((comparison for comparison, _ in self.paired if comparison.id == ranked), None)
        if own is None or not own.unit:
            return ""
        units = {name for names in own.unit_sets for name in names}
        sources = {name for names in own.clusters for name in names}
        source = own.cluster_unit or "source"
        of = f" of {several(len(sources), source)}" if sources and source != own.unit else ""
        return f"{several(len(units), own.unit)}{of}"

    def _notes(self) -> list[str]:
        """Return what readers of the main table must know: the claim, what was found, what failed, what is missing."""
        doubts = [f"{label} {cannot_win(lines)}." for label, lines in self.flags.items()]
        claims = []
        for ranking in self.rankings[:1]:
            if not self._is_about(ranking):
                claims.append(f"What else was ranked stands in the table {ranking.table}.")
                continue
            claims += [ranking.claim] if ranking.claim else []
            claims += first_sentences(ranking.findings, "in `findings`")
        lines = list(map(_cause, causes_of(self.failed)))[:SHOWN_FAILURES]
        failed = [f"{several(len(self.failed), 'cell')} failed:", *lines] if self.failed else []
        gaps = list(dict.fromkeys(f"Missing: {gap.what} ({gap.reason})" for gap in self.missing))
        others = [f"Tables: {', '.join(self.tables)}."] if len(self.made) > 1 else []
        return [*map(printed, [*doubts, *claims]), *failed, *gaps[:SHOWN_FAILURES], *others]

    def _repr_html_(self) -> str:
        table = as_html(self.table().short()) if self.made else f"<p>{html.escape(self.title)}: no table</p>"
        units = self._units()
        head = f"<p>{html.escape(f'{self.title}: {units}')}</p>" if units else ""
        return head + table + "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())

    def __repr__(self) -> str:
        head = [f"{self.title}: {units}"] if (units := self._units()) else []
        return "\n".join([*head, repr(self.table()) if self.made else f"{self.title}: no table", *self._notes()])


def _cause(cause: Cause) -> str:
    first, *others = cause.cells
    return f"{first}: {cause.why}" + (f" (so did {several(len(others), 'other cell')})" if others else "")


def _known(what: str, name: Any, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return a name; raises `UsageError` if it is unknown."""
    if text(what, name, "a name") not in known:
        raise _unknown(what, name, known)
    return str(name)


def _unknown(what: str, name: str, known: Mapping[str, object] | Sequence[str]) -> UsageError:
    return UsageError(unknown_name(f"{what}: no {what} is called {name!r}", name, known))
