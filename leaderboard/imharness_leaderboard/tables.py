"""What pages show of a table: its columns, filters and marks, and each number as text."""

from __future__ import annotations

from imharness.documents.comparisons import Comparison
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness.documents.tables import ColumnSpec, Table, Value, joined, several
from imharness.exports.marks import Marks
from imharness.results.labels import id_of
from imharness.statistics.clusters import FEWEST

INTERVALS = "Simultaneous 95% intervals of the differences between all rows"


def column_named(table: Table, key: str) -> ColumnSpec | None:
    """Return a column by its key, or None."""
    return next((column for column in table.columns if column.key == key), None)


def table_named(leaderboard: Leaderboard, id: str) -> Table | None:
    """Return a table by its id, or None."""
    return next((table for table in leaderboard.tables if table.id == id), None)


def with_order(leaderboard: Leaderboard) -> Leaderboard:
    """Return the leaderboard with the rows and columns of its matrices in the order of its rankings and main tables.

    A matrix is a table with `shading` that is not ranked itself. Entries of no ranked table come last, sorted by name;
    an entry with other parameters follows the entry of its name.
    """
    ranked_first = {ranking.table for ranking in leaderboard.rankings}
    tables = sorted(
        (table for table in leaderboard.tables if table.ranked_by),
        key=lambda candidate: candidate.id not in ranked_first,
    )
    order: dict[str, int] = {}
    for row in (row for table in tables for row in table.rows):
        order.setdefault(row.label, len(order))
    for label, first in list(order.items()):
        order.setdefault(id_of(label), first)

    def place(label: str) -> tuple[int, str]:
        return order.get(label, order.get(id_of(label), len(order))), label

    def sorted_matrix(table: Table) -> Table:
        rows, columns = sorted(table.rows, key=lambda row: place(row.label)), table.columns
        named = sorted(columns, key=lambda column: place(column.label))
        return table.model_copy(update={"rows": tuple(rows), "columns": tuple(named)})

    ordered_tables = [
        sorted_matrix(table) if table.shading and not table.ranked_by else table for table in leaderboard.tables
    ]
    return leaderboard.model_copy(update={"tables": tuple(ordered_tables)})


def facets_of(table: Table) -> dict[str, list[str]]:
    """Return the facets by which rows can be filtered, each with its values; a facet with one value is left out."""
    values_by_name: dict[str, set[str]] = {}
    for row in table.rows:
        for name, value in row.facets.items():
            values_by_name.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in values_by_name.items() if len(values) > 1}


def marks_of(leaderboard: Leaderboard, table: Table) -> Marks:
    """Return the marks of a table: which numbers are best, and which are not shown to be worse."""
    return Marks(table, leaderboard)


def breadth(table: Table) -> str:
    """Return how broad a table is when printed: ``narrow``, ``broad`` (a page across), or ``vast`` (small print)."""
    columns = len(table.columns) + len(facets_of(table))
    return "narrow-print" if columns <= 8 else "broad-print" if columns <= 16 else "vast-print"


def shade(value: Value | None, table: Table) -> int:
    """Return the step of a heat map's colour, from 0 to 10."""
    if table.shading is None or value is None or value.value is None:
        return 0
    return round(10 * max(0.0, min(1.0, value.value / table.shading)))


def shown(value: Value | None, column: ColumnSpec) -> str:
    """Return a number as text, or a dash where there is none."""
    if value is None or value.value is None:
        return "–"
    return column.text(value.value)


def spread(value: Value | None, column: ColumnSpec) -> str:
    """Return the 95% interval and n of a number as text; empty where it has neither."""
    if value is None or value.value is None:
        return ""
    pieces = []
    if value.low is not None and value.high is not None:
        pieces.append(f"{column.text(value.low)} – {column.text(value.high)}")
    return ", ".join([*pieces, count] if (count := column.count(value)) else pieces)


def why(value: Value | None) -> str:
    """Return the reason why a number is missing."""
    return value.missing if value is not None and value.missing else "not measured"


def headline(leaderboard: Leaderboard) -> dict[str, str] | None:
    """Return the first row of a track's main table with a sentence about its score, or None where it has no score.

    Keys: ``label`` of the row, ``entry`` (what is ranked, such as "defense") and ``text``. While tasks are waiting,
    nothing is called the first.
    """
    main = leaderboard.tables[0] if leaderboard.tables and not leaderboard.waiting else None
    if main is None or not main.rows:
        return None
    column, row = column_named(main, main.ranked_by), main.rows[0]
    value = row.values.get(main.ranked_by)
    if column is None or value is None or value.value is None:
        return None
    text = f"{column.label} {shown(value, column)}"
    if value.low is not None and value.high is not None:
        text += f", 95% interval {column.text(value.low)} to {column.text(value.high)}"
    if count := column.count(value) if column.unit else "":
        text += f", {count}"
    behind = _behind(leaderboard, main).get(column.key)
    if behind is not None and (few := _too_few(behind)):
        text += f"; {few}"
    elif column.key in main.not_worse:
        marks = marks_of(leaderboard, main)
        rivals = _rivals(main, [other.label for other in main.rows[1:] if marks.of(other, column)])
        text += f"; {'too few for an interval' if marks.is_few(column) else rivals}"
    return {"label": row.label, "entry": main.entry, "text": text + "."}


def _rivals(table: Table, tied: list[str]) -> str:
    if not tied:
        return f"shown to be better than every other {table.entry}"
    more = [f"{len(tied) - 3} more"] if len(tied) > 3 else []
    return f"not shown to be worse: {joined([*map(brief, tied[:3]), *more])}"


def legend(leaderboard: Leaderboard, table: Table) -> list[str]:
    """Return sentences on how numbers are marked: one for each kind of unit, and one on columns that are not tested."""
    tests = [_tested(comparison) for key, comparison in _behind(leaderboard, table).items() if key in table.not_worse]
    marks = marks_of(leaderboard, table)
    apart = marks.untested(table.columns)
    first = ["Where the ranking says which of two is better, that counts."] if marks.ranking else []
    remarks = [f"Not tested, so that the best alone is marked: {joined(map(brief, apart))}."] if apart else []
    return [*(dict.fromkeys(tests) or [f"{INTERVALS}."]), *first, *remarks]


def _behind(leaderboard: Leaderboard, table: Table) -> dict[str, Comparison]:
    """Return key of a column -> the comparison behind its numbers."""
    return {c.column: c for c in leaderboard.comparisons if c.table == table.id}


def _tested(comparison: Comparison) -> str:
    over = f"paired {comparison.unit}s"
    if comparison.clusters:
        over = f"{comparison.cluster_unit or 'source'}s, each with the mean over its {comparison.unit}s"
    few = _too_few(comparison)
    return f"{INTERVALS} over {over}{f': {few}' if few else ''}."


def _too_few(comparison: Comparison) -> str:
    """Return why no two rows can be separated, however large their difference; empty where they can be."""
    sources = comparison.clusters or comparison.unit_sets
    what = (comparison.cluster_unit or "source") if comparison.clusters else comparison.unit
    size = len({name for names in sources for name in names})
    return f"{several(size, what)} cannot separate rows" if size < FEWEST else ""
