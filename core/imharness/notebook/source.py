"""Makes results from boards and stores: tables at once, rows when they are asked for. Imports no torch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.notebook.result import Columns, Result
from imharness.ranking.board import records_of
from imharness.results.boards import Board
from imharness.results.store import Store
from imharness.results.sweeps import Sweep
from imharness.results.tasks import TaskRecord


def result_of(board: Board, numbers: Mapping[str, npt.NDArray[np.floating]], store: Store, sweep: Sweep) -> Result:
    """Return the tables of a board as a result that reads the rows behind them when they are asked for."""

    @functools.cache
    def records() -> list[TaskRecord]:
        return records_of(store, sweep)

    def rows_of(step: str) -> Callable[[], Columns]:
        return lambda: joined_rows(store, [record for record in records() if record.spec.step == step])

    steps = sorted({address.partition(" ")[0] for address in sweep.cells})
    return Result(
        board.title,
        board.tables,
        {step: rows_of(step) for step in steps},
        dict(board.failed),
        board.missing,
        [(own, numbers[own.id]) for own in board.comparisons if own.id in numbers],
        boards_of(board),
    )


def boards_of(board: Board) -> dict[str, Board]:
    """Return table -> the board, for each table of a board."""
    return {table.id: board for table in board.tables}


def joined_rows(store: Store, records: Sequence[TaskRecord]) -> dict[str, npt.NDArray[Any]]:
    """Return the rows of records as columns of one length, each row with the components and options of its cell.

    Where a cell lacks a column, its rows have NaN, or None if the column does not hold numbers.
    """
    parts = [_with_facts(record, store.rows(record)) for record in records if record.rows is not None]
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([_column(name, part, parts) for part in parts]) for name in names}


def _with_facts(record: TaskRecord, rows: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    roles = {role.replace(".", "_"): ref.label for role, ref in record.spec.named().items()}
    facts = {"task": record.key, **roles, **record.spec.options, **record.facts}
    return {name: np.full(record.n_rows, value) for name, value in facts.items()} | dict(rows)


def _column(
    name: str, part: Mapping[str, npt.NDArray[Any]], parts: Sequence[Mapping[str, npt.NDArray[Any]]]
) -> npt.NDArray[Any]:
    if name in part:
        return part[name]
    like = next(other[name] for other in parts if name in other)
    gap = np.nan if like.dtype.kind in "fiu" else None
    return np.full(len(part["task"]), gap, dtype=None if gap is not None else object)
