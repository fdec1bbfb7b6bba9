"""Adds entries that have no result, because their tasks failed, to tables and rankings, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from imharness.documents.rankings import Place, Ranking
from imharness.documents.tables import Row, Table, Value
from imharness.results.sweeps import Sweep, causes_of
from imharness.results.tasks import TaskRecord

ROLE = re.compile(r" ([\w-]+)=(\S+)")
"""Finds a role and its label, or an option and its value, in the address of a task."""
WITHOUT_RESULT = Place(complete=False, gate="not measured", front=False, broken_by={})
"""What a ranking states about an entry that has no result."""


def failures_of(sweep: Sweep, records: Iterable[TaskRecord]) -> dict[tuple[str, str], str]:
    """Return (role, label) -> why, for each component of which all tasks of a step failed.

    Of several causes the one that the run met first counts. `records`: those of the tasks that are done.
    """
    done = {(r.spec.step, role, ref.label) for r in records for role, ref in r.spec.components.items()}
    failures: dict[tuple[str, str], str] = {}
    for why, tasks in causes_of(sweep.failed):
        for task in tasks:
            step = task.partition(" ")[0]
            for role, label in ROLE.findall(task):
                if (step, role, label) not in done:
                    failures.setdefault((role, label), why)
    return failures


def with_failed(
    tables: Sequence[Table], rankings: Sequence[Ranking], failures: Mapping[tuple[str, str], str]
) -> tuple[list[Table], list[Ranking]]:
    """Return the tables with a row for each entry that failed, and the rankings with a place for it.

    Whether an entry failed is decided by the first table whose rows are of its kind, such as "defense": an entry with
    a row there did not fail. Other tables may leave it out for other reasons. `failures`: see `failures_of`.
    """
    failed_by_kind: dict[str, dict[str, str]] = {}  # what a row is -> label of a failed entry -> why
    for table in tables:
        if table.entry not in failed_by_kind:
            present = {name for row in table.rows for name in (row.label, *row.label.split(" + "))}
            failed = {
                label: why for (role, label), why in failures.items() if role == table.entry and label not in present
            }
            failed_by_kind[table.entry] = dict(sorted(failed.items()))
    filled = [_with_rows(table, failed_by_kind[table.entry]) for table in tables]
    kind_of = {table.id: table.entry for table in tables}
    placed = [_with_places(ranking, failed_by_kind.get(kind_of.get(ranking.table, ""), {})) for ranking in rankings]
    return filled, placed


def _with_rows(table: Table, failed: Mapping[str, str]) -> Table:
    """Return a table with a row below for each failed entry that it has not, every value of which says why."""
    present = {row.label for row in table.rows}
    rows = [
        Row(label=label, values={column.key: Value(missing=f"failed: {why}") for column in table.columns})
        for label, why in failed.items()
        if label not in present
    ]
    return table.model_copy(update={"rows": (*table.rows, *rows)}) if failed else table


def _with_places(ranking: Ranking, failed: Mapping[str, str]) -> Ranking:
    places = {**ranking.places, **dict.fromkeys(failed, WITHOUT_RESULT)}
    return ranking.model_copy(update={"places": places}) if failed else ranking
