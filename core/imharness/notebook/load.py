"""`load`: the results that a store or a built site holds. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from imharness.errors import StoreError, UsageError
from imharness.notebook.arguments import place as path_of
from imharness.notebook.result import Result
from imharness.notebook.source import boards_of, result_of
from imharness.reading.structured import read_json
from imharness.results.boards import Board
from imharness.results.rankings import Ranking
from imharness.results.store import Store

TABLES = Path("data") / "results.json"


def load(store_or_site: str | os.PathLike[str]) -> Result:
    """Return the tables of a store with the rows behind them, or the tables of a site, which has no rows.

    If several tracks have tables, the names of tables and steps begin with the track, as in ``iqa/ranking``. Raises
    `UsageError` for a place that is neither, and `StoreError` for a store without tables.
    """
    place = path_of("store_or_site", store_or_site, "a folder or the address of a store")
    if (Path(place) / TABLES).is_file():
        file = Path(place) / TABLES
        return joined([of_board(board) for board in boards_in(read_json(file), f"store_or_site: {file}")], place)
    if "://" not in place and not Path(place).is_dir():
        raise UsageError(f"store_or_site: {place} is not a folder; give a store, or a site that was built.")
    store = Store(place)
    tracks = store.ranked()
    if not tracks:
        raise StoreError(
            f"{place} has no tables; `harness run` makes some, `harness results rank` makes them from its results."
        )
    return joined([stored(store, board) for track in tracks if (board := store.board(track)) is not None], place)


def boards_in(found: Any, where: str) -> list[Board]:
    """Return the boards of a site's results; raises a `UsageError` that begins with `where`."""
    try:
        return [Board.model_validate(board) for board in found["boards"]]
    except (KeyError, TypeError, ValidationError) as error:
        raise UsageError(f"{where} is not a list of tables: {str(error).splitlines()[0]}.") from None


def of_board(board: Board) -> tuple[str, Result]:
    """Return the track of a board, and its tables as a result without rows."""
    return board.track, Result(
        board.title, board.tables, failed=dict(board.failed), missing=board.missing, boards=boards_of(board)
    )


def stored(store: Store, board: Board) -> tuple[str, Result]:
    """Return the track of a board in a store, and its result with the rows."""
    sweep = store.sweep(board.track, board.run_configuration)
    if sweep is None:
        return of_board(board)
    return board.track, result_of(board, store.numbers(board), store, sweep)


def joined(parts: list[tuple[str, Result]], place: str) -> Result:
    """Return the results of several tracks as one."""
    if len(parts) == 1:
        return parts[0][1]
    named = [(f"{track.partition('/')[2]}/", result) for track, result in parts]
    tables = [table.model_copy(update={"id": name + table.id}) for name, result in named for table in result.made]
    paired = [
        (own.model_copy(update={"id": name + own.id, "table": name + own.table}), numbers)
        for name, result in named
        for own, numbers in result.paired
    ]
    boards = [_renamed(name, result) for name, result in named]
    missing = [gap for _, result in named for gap in result.missing]
    read, failed = _named(named, "read"), _named(named, "failed")
    return Result(place, tables, read, failed, missing, paired, {k: v for own in boards for k, v in own.items()})


def _renamed(name: str, result: Result) -> dict[str, Board]:
    """Return table -> board for a result, with the track before the names of tables."""

    def renamed(own: Ranking) -> Ranking:
        return own.model_copy(update={"table": name + own.table, "comparison": name + own.comparison})

    rankings = tuple(map(renamed, result.rankings))
    boards = [board.model_copy(update={"rankings": rankings}) for board in list(result.boards.values())[:1]]
    return {name + table: board for board in boards for table in result.boards}


def _named(parts: list[tuple[str, Result]], field: str) -> dict[str, Any]:
    found: list[tuple[str, Mapping[str, Any]]] = [(name, getattr(result, field)) for name, result in parts]
    return {name + key: value for name, own in found for key, value in own.items()}
