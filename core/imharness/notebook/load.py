"""`load`: the results that a store or a built site holds. Imports no torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Ranking
from imharness.documents.stored import read_leaderboard, read_numbers
from imharness.errors import StoreError, UsageError
from imharness.notebook.arguments import address_of
from imharness.notebook.result import Result
from imharness.notebook.source import leaderboards_of, result_of
from imharness.reading.structured import read_json
from imharness.results.store import Store

TABLES = Path("data") / "results.json"
"""The file of a site that has its leaderboards as data."""


def load(store_or_site: str | os.PathLike[str]) -> Result:
    """Return the tables of a store with the rows behind them, or the tables of a site, which has no rows.

    If several tracks have tables, the names of tables and steps begin with the track, as in ``iqa/ranking``. Raises
    `UsageError` for a place that is neither, and `StoreError` for a store without tables.
    """
    location = address_of("store_or_site", store_or_site, "a folder or the address of a store")
    if (Path(location) / TABLES).is_file():
        file = Path(location) / TABLES
        return joined(
            [of_leaderboard(leaderboard) for leaderboard in leaderboards_in(read_json(file), f"store_or_site: {file}")],
            location,
        )
    if "://" not in location and not Path(location).is_dir():
        raise UsageError(f"store_or_site: {location} is not a folder; give a store, or a site that was built.")
    store = Store(location)
    tracks = store.ranked()
    if not tracks:
        raise StoreError(
            f"{location} has no tables; `harness run` makes some, `harness results rank` makes them from its results."
        )
    return joined(
        [stored(store, leaderboard) for track in tracks if (leaderboard := read_leaderboard(store, track)) is not None],
        location,
    )


def leaderboards_in(content: Any, where: str) -> list[Leaderboard]:
    """Return the leaderboards of a site's results; raises a `UsageError` that begins with `where`."""
    try:
        return [Leaderboard.model_validate(leaderboard) for leaderboard in content["leaderboards"]]
    except (KeyError, TypeError, ValidationError) as error:
        raise UsageError(f"{where} is not a list of tables: {str(error).splitlines()[0]}.") from None


def of_leaderboard(leaderboard: Leaderboard) -> tuple[str, Result]:
    """Return the track of a leaderboard, and its tables as a result; such a result cannot read rows."""
    return leaderboard.track, Result(
        leaderboard.title,
        leaderboard.tables,
        failed=dict(leaderboard.failed),
        missing=leaderboard.missing,
        leaderboards=leaderboards_of(leaderboard),
    )


def stored(store: Store, leaderboard: Leaderboard) -> tuple[str, Result]:
    """Return the track of a leaderboard in a store, and its result with the rows."""
    sweep = store.sweep(leaderboard.track, leaderboard.run_configuration)
    if sweep is None:
        return of_leaderboard(leaderboard)
    return leaderboard.track, result_of(leaderboard, read_numbers(store, leaderboard), store, sweep)


def joined(results: list[tuple[str, Result]], location: str) -> Result:
    """Return the results of several tracks as one, whose title is `location`.

    `results` are pairs of a track's id and its result. If there are several, the names of tables, steps and comparisons
    begin with the track, as in ``iqa/ranking``.
    """
    if len(results) == 1:
        return results[0][1]
    with_prefix = [_prefixed(f"{track.partition('/')[2]}/", result) for track, result in results]
    return Result(
        location,
        [table for result in with_prefix for table in result.table_list],
        {step: read for result in with_prefix for step, read in result.read.items()},
        {task: why for result in with_prefix for task, why in result.failed.items()},
        [gap for result in with_prefix for gap in result.missing],
        [pair for result in with_prefix for pair in result.paired],
        {table: leaderboard for result in with_prefix for table, leaderboard in result.leaderboards.items()},
    )


def _prefixed(prefix: str, result: Result) -> Result:
    """Return the result of one track with a prefix before the names of tables, steps, tasks and comparisons."""

    def renamed(ranking: Ranking) -> Ranking:
        return ranking.model_copy(update={"table": prefix + ranking.table, "comparison": prefix + ranking.comparison})

    leaderboards: dict[str, Leaderboard] = {}
    if result.leaderboards:
        leaderboard = next(iter(result.leaderboards.values()))  # all tables of one track have the same
        leaderboard = leaderboard.model_copy(update={"rankings": tuple(map(renamed, result.rankings))})
        leaderboards = {prefix + table: leaderboard for table in result.leaderboards}
    return Result(
        result.title,
        [table.model_copy(update={"id": prefix + table.id}) for table in result.table_list],
        {prefix + step: read for step, read in result.read.items()},
        {prefix + task: why for task, why in result.failed.items()},
        result.missing,
        [
            (comparison.model_copy(update={"id": prefix + comparison.id, "table": prefix + comparison.table}), numbers)
            for comparison, numbers in result.paired
        ],
        leaderboards,
    )
