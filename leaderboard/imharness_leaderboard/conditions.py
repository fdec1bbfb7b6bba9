"""Every condition of a comparison as a row of a table: the numbers that the means are taken over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from imharness.ranking.tables import value_of
from imharness.results.boards import Board
from imharness.results.tables import ColumnSpec, Row, Table, Value
from imharness.statistics.bootstrap import mean_intervals
from imharness_leaderboard.scores import Scores

CONDITIONS = "conditions-"
"""Prefix of the ids of these tables."""


def with_conditions(board: Board, scores: Sequence[Scores]) -> Board:
    """Return the board with a further table for each kind of entry and set of facets: a row per entry and condition."""
    groups: dict[tuple[str, tuple[str, ...]], list[Scores]] = {}
    for own in scores:
        if own.comparison.conditions:
            groups.setdefault((own.comparison.entry, tuple(own.comparison.conditions[0].facets)), []).append(own)
    kept = [table for table in board.tables if not table.id.startswith(CONDITIONS)]
    seen = [entry for entry, _ in groups]
    numbers = [seen[:i].count(entry) for i, entry in enumerate(seen)]
    found = [_table(*key, number, group) for number, (key, group) in zip(numbers, groups.items(), strict=True)]
    return board.model_copy(update={"tables": (*kept, *found)})


def _table(entry: str, facets: tuple[str, ...], number: int, group: Sequence[Scores]) -> Table:
    columns: dict[str, ColumnSpec] = {}
    rows: dict[tuple[str, ...], dict[str, Value]] = {}
    families: dict[str, str] = {}
    for scores in group:
        own = scores.comparison
        columns[own.measure] = ColumnSpec(
            key=own.measure,
            label=own.measure,
            description=own.description,
            better=own.better,
            decimals=own.decimals,
            unit=own.unit,
            cluster_unit=own.cluster_unit,
        )
        families |= own.families
        starts = own.starts()
        for i, condition in enumerate(own.conditions):
            block = scores.vectors[:, starts[i] : starts[i + 1]].astype(np.float64)
            clusters = own.clusters[condition.units] if own.clusters else None
            for label, found in zip(own.entries, mean_intervals(block, clusters), strict=True):
                if found is not None:
                    rows.setdefault((label, *condition.facets.values()), {})[own.measure] = value_of(found)
    shown = [facet for i, facet in enumerate(facets) if len({key[i + 1] for key in rows}) > 1]
    made = [
        Row(
            label=key[0],
            values=values,
            facets={
                entry: key[0],
                **({"family": families[key[0]]} if key[0] in families else {}),
                **{facet: key[facets.index(facet) + 1] for facet in shown},
            },
        )
        for key, values in sorted(rows.items())
    ]
    kind = "-".join(entry.split())
    return Table(
        id=f"{CONDITIONS}{kind}" + (f"-{number + 1}" if number else ""),
        title=f"Every condition, by {entry}" + (f", by {', '.join(facets)}" if number else ""),
        caption="One row for each entry in each condition: the mean over units, with a bootstrap interval that "
        "resamples the units, or the sources that they come from.",
        entry=entry,
        columns=tuple(columns.values()),
        rows=tuple(made),
    )
