"""Makes a report from scores: a sorted table, its best row, the comparisons behind its columns, and a chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from imharness.documents.charts import Chart
from imharness.documents.report import PairedScores, TrackReport
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.ranking.tables import mean_value
from imharness.results.blocks import Blocks, Lazy


@dataclass(frozen=True)
class Wins:
    """How entries are compared pairwise by the numbers behind a column.

    Attributes:
        id, title: of the table of win rates.
        about: what winning means, such as "a smaller distance".
        measure, description: what one number is; by default those of the column.
        unit: what a number was measured on.
        families: entry -> its family, by which readers can group entries.
        pooled: facets that the tests of who beats whom disregard, see `PairedScores`.
    """

    id: str
    title: str
    about: str
    measure: str = ""
    description: str = ""
    unit: str = "image"
    families: Mapping[str, str] = field(default_factory=dict)
    pooled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of a ranking: by default the mean of a measure, where each unit counts once.

    Attributes:
        key, label, description: the name of the column in data, and what readers see.
        better: which direction is better, or "" for none.
        decimals: with how many decimals numbers are printed.
        where: facet -> value; only conditions with these facets count.
        value: entry -> the value of the column, instead of a mean.
        wins: how entries are compared by the measure, if they are; needs a direction.
        of: the measure in the scores; `key` by default.
        cluster: a fact of the units that says which of them belong together, such as the photograph that an image was
            made of. Intervals and tests then take clusters as independent. A unit without this fact is a cluster of its
            own.
        unit, cluster_unit: what readers call a unit and a cluster; by default as `wins` and `cluster` do.
        limits: the least and the largest number that the measure can have.
        group: a fact of the units that says which of them share something, such as a pool of rows. The interval of a
            mean is then that of `nested_interval`; comparisons of entries still take clusters as independent.
        stratum: a fact that says to which data set a group belongs.
    """

    key: str
    label: str
    description: str
    better: Literal["higher", "lower", ""] = ""
    decimals: int = 3
    where: Mapping[str, str] = field(default_factory=dict)
    value: Callable[[str], Value] | None = None
    wins: Wins | None = None
    of: str = ""
    cluster: str = ""
    unit: str = ""
    cluster_unit: str = ""
    limits: tuple[float, float] | None = None
    group: str = ""
    stratum: str = ""

    @property
    def spec(self) -> ColumnSpec:
        """The column as data of a table."""
        return ColumnSpec(
            key=self.key,
            label=self.label,
            description=self.description,
            better=self.better,
            decimals=self.decimals,
            unit=self.unit or (self.wins.unit if self.wins else ""),
            cluster_unit=self.cluster_unit or self.cluster,
            limits=self.limits,
        )


def ranking(
    scores: Blocks,
    *columns: Column,
    id: str,
    title: str,
    caption: str,
    entry: str,
    by: Sequence[str] = (),
    note: str = "",
    chart: str = "",
    last: Iterable[Row] = (),
) -> TrackReport:
    """Return a table of all entries, the best first, with its comparisons and perhaps a chart.

    The best entries of a column are marked later, when the leaderboard is made. Entries without a number come last.

    Args:
        scores: the numbers of the entries.
        columns: the columns of the table.
        id, title, caption, note: of the table.
        entry: what a row is, such as "defense".
        by: keys of the columns by which rows are sorted, by default the first one; ties are broken by the next key, and
            then by label.
        chart: the caption of a chart with a dot for each entry; "" for no chart.
        last: rows that are added below and take no part in the order.
    """
    order = list(by) or [columns[0].key]
    specs = {column.key: column.spec for column in columns}
    rows = [
        Row(label=label, values={column.key: _value(scores, column, label) for column in columns})
        for label in scores.entries
    ]
    table = Table(
        id=id,
        title=title,
        caption=caption,
        entry=entry,
        columns=tuple(specs.values()),
        rows=(*ranked(rows, *(specs[key] for key in order)), *last),
        ranked_by=order[0],
        note=note,
    )
    comparisons = [compared(scores, column, table=id, entry=entry) for column in columns if column.wins]
    dots = Chart(id=id, title=specs[order[0]].label, caption=chart, kind="dots", table=id, x=order[0])
    return TrackReport([table], comparisons, [dots] if chart else [])


def compared(
    scores: Blocks,
    column: Column,
    *,
    table: str,
    entry: str,
    over: Sequence[str] = (),
    balanced: str = "",
    incomplete: Sequence[str] = (),
) -> PairedScores:
    """Return the comparison behind a column that has `wins`, condition by condition; the rest as in `PairedScores`."""
    wins, chosen = column.wins, scores.where(**column.where)
    assert wins is not None
    numbers, interned = scores.values[column.of or column.key], dict[tuple[str, ...], tuple[str, ...]]()

    def shared(names: Iterable[str]) -> tuple[str, ...]:
        """Return names as one object for all conditions that have the same names."""
        key = tuple(names)
        return interned.setdefault(key, key)

    return PairedScores(
        id=wins.id,
        title=wins.title,
        about=wins.about,
        entry=entry,
        measure=wins.measure or column.label,
        description=wins.description or column.description,
        better=column.better or "higher",
        entries=scores.entries,
        conditions=tuple(scores.conditions[c] for c in chosen),
        units=tuple(shared(scores.units[c]) for c in chosen),
        values=Lazy(len(chosen), lambda i: numbers[chosen[i]]),
        clusters=tuple(shared(scores.clusters(column.cluster, c)) for c in chosen) if column.cluster else (),
        decimals=column.decimals,
        unit=wins.unit,
        cluster_unit=column.cluster_unit or column.cluster,
        families=wins.families,
        table=table,
        column=column.key,
        over=tuple(over),
        balanced=balanced,
        incomplete=tuple(incomplete),
        pooled=wins.pooled,
        limit=None if column.limits is None else column.limits[1] - column.limits[0],
    )


def _value(scores: Blocks, column: Column, label: str) -> Value:
    """Return the value of an entry in a column: what `Column.value` returns, or else the mean over units."""
    if column.value is not None:
        return column.value(label)
    unit_means, clusters = scores.once_by(column.cluster, column.of or column.key, label, scores.where(**column.where))
    return mean_value(unit_means, clusters if column.cluster else None)


def ranked(rows: Iterable[Row], *columns: ColumnSpec) -> list[Row]:
    """Return rows, the best first by the direction of the first column; ties are broken by the next columns.

    Rows that are equal in all columns keep their order. A row without a number (none, NaN, or no such column) comes
    last, whatever the direction. A column without a direction only moves such rows to the end.
    """

    signs = [{"higher": -1.0, "lower": 1.0}.get(column.better, 0.0) for column in columns]

    def sort_key(row: Row) -> list[tuple[bool, float]]:
        numbers = [row.number(column.key) for column in columns]
        return [(number is None, sign * (number or 0.0)) for number, sign in zip(numbers, signs, strict=True)]

    return sorted(rows, key=sort_key)


def winner(table: Table, column: str) -> str:
    """Return the label of the best row of a column, or "" where the column has no direction or no number.

    Of rows with the same number, the one that stands first wins.
    """
    specs = [spec for spec in table.columns if spec.key == column and spec.better]
    best = ranked(table.rows, *specs)[:1] if specs else []
    return best[0].label if best and best[0].number(column) is not None else ""
