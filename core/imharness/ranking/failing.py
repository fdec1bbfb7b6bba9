"""Entries that have no result because their tasks failed: they stand in the tables, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from imharness.results.rankings import Place, Ranking
from imharness.results.sweeps import Sweep, causes_of
from imharness.results.tables import Row, Table, Value
from imharness.results.tasks import TaskRecord

PART = re.compile(r" ([\w-]+)=(\S+)")
"""A part of the address of a task: a role and a label, or an option and its value."""
NOWHERE = Place(complete=False, gate="not measured", front=False, broken_by={})
"""The place of an entry that has no result."""


def failures_of(sweep: Sweep, records: Iterable[TaskRecord]) -> dict[tuple[str, str], str]:
    """Return (role, label) -> why, for each component of which all tasks of a step failed."""
    done = {(r.spec.step, role, ref.label) for r in records for role, ref in r.spec.components.items()}
    return {
        (role, label): why
        for why, tasks in reversed(causes_of(sweep.failed))
        for task in reversed(tasks)
        for role, label in PART.findall(task)
        if (task.partition(" ")[0], role, label) not in done
    }


def with_failed(
    tables: Sequence[Table], rankings: Sequence[Ranking], failures: Mapping[tuple[str, str], str]
) -> tuple[list[Table], list[Ranking]]:
    """Return the tables with a row for each entry that failed, and the rankings with its place.

    An entry that stands in the first table of its kind did not fail; another table may leave it out for reasons of its
    own.
    """
    lost: dict[str, dict[str, str]] = {}
    for table in tables:
        if table.entry not in lost:
            there = {name for row in table.rows for name in (row.label, *row.label.split(" + "))}
            absent = {
                label: why for (role, label), why in failures.items() if role == table.entry and label not in there
            }
            lost[table.entry] = dict(sorted(absent.items()))
    filled = [
        table.model_copy(update={"rows": (*table.rows, *_rows(table, lost[table.entry]))})
        if lost[table.entry]
        else table
        for table in tables
    ]
    entries = {table.id: table.entry for table in tables}
    placed = [
        ranking.model_copy(update={"places": {**ranking.places, **dict.fromkeys(absent, NOWHERE)}})
        if absent
        else ranking
        for ranking in rankings
        for absent in (lost.get(entries.get(ranking.table, ""), {}),)
    ]
    return filled, placed


def _rows(table: Table, lost: Mapping[str, str]) -> list[Row]:
    there = {row.label for row in table.rows}
    return [
        Row(label=label, values={column.key: Value(missing=f"failed: {why}") for column in table.columns})
        for label, why in lost.items()
        if label not in there
    ]
