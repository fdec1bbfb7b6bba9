"""Makes results from leaderboards and stores: tables at once, rows when they are asked for. Imports no torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.components.registry import installed
from imharness.documents.leaderboards import Leaderboard
from imharness.errors import UsageError
from imharness.notebook.result import Columns, Result
from imharness.ranking.current import current_records, records_of
from imharness.ranking.entries import withdrawn_for
from imharness.results.store import Store
from imharness.results.sweeps import Sweep
from imharness.results.tasks import TaskRecord


def result_of(
    leaderboard: Leaderboard, numbers: Mapping[str, npt.NDArray[np.floating]], store: Store, sweep: Sweep
) -> Result:
    """Return the tables of a leaderboard as a result that reads the rows behind them when they are asked for."""

    @functools.cache
    def records() -> list[TaskRecord]:
        registry = installed()
        try:
            track = registry.track(sweep.track)
        except UsageError:  # its package is not here, so that nothing tells which versions are old
            return records_of(store, sweep)
        return current_records(store, track, sweep, registry, withdrawn_for(store))

    def rows_of(step: str) -> Callable[[], Columns]:
        return lambda: joined_rows(store, [record for record in records() if record.spec.step == step])

    steps = sorted({address.partition(" ")[0] for address in sweep.tasks})
    return Result(
        leaderboard.title,
        leaderboard.tables,
        {step: rows_of(step) for step in steps},
        dict(leaderboard.failed),
        leaderboard.missing,
        [(comparison, numbers[comparison.id]) for comparison in leaderboard.comparisons if comparison.id in numbers],
        leaderboards_of(leaderboard),
    )


def leaderboards_of(leaderboard: Leaderboard) -> dict[str, Leaderboard]:
    """Return table -> the leaderboard, for each table of a leaderboard."""
    return {table.id: leaderboard for table in leaderboard.tables}


def joined_rows(store: Store, records: Sequence[TaskRecord]) -> dict[str, npt.NDArray[Any]]:
    """Return the rows of records as columns of one length, each row with the components and options of its task.

    Where a task lacks a column, its rows have NaN, or None if the column does not hold numbers.
    """
    tables = [_with_facts(record, store.rows(record)) for record in records if record.rows]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: np.concatenate([_column(name, table, tables) for table in tables]) for name in names}


def _with_facts(record: TaskRecord, rows: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    roles = {role.replace(".", "_"): ref.label for role, ref in record.spec.named().items()}
    facts = {"task": record.key, **roles, **record.spec.options, **record.facts}
    return {name: np.full(record.n_rows, value) for name, value in facts.items()} | dict(rows)


def _column(
    name: str, table: Mapping[str, npt.NDArray[Any]], tables: Sequence[Mapping[str, npt.NDArray[Any]]]
) -> npt.NDArray[Any]:
    if name in table:
        return table[name]
    like = next(other[name] for other in tables if name in other)
    gap = np.nan if like.dtype.kind in "fiu" else None
    return np.full(len(table["task"]), gap, dtype=None if gap is not None else object)
