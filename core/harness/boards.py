"""Records -> tables: merge what was run into an edition, let the track make its tables, keep them in the store."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.contracts.track import Track
from harness.errors import HarnessError
from harness.identity import ComponentRef, digest
from harness.plan import Graph
from harness.reading import ResultQuery
from harness.results import EXTERNAL, Board, Sweep, TaskRecord
from harness.store import Store


def save_sweep(
    store: Store,
    graph: Graph,
    *,
    done: set[str],
    failed: dict[str, str],
    profile: str,
    seed: int,
    limit: int | None,
    command: str,
) -> Sweep:
    """Merge a run into its edition: cells of this run replace those of an earlier one at the same address."""
    track = graph.track
    old = store.sweep(track.info.id, graph.edition)
    planned = {task.address: key for key, task in graph.tasks.items()}
    cells = {**(old.cells if old else {}), **{a: k for a, k in planned.items() if k in done}}
    lines = {task.address: failed[key] for key, task in graph.tasks.items() if key in failed}
    here = {ref.label for task in graph.tasks.values() for ref in task.spec.components.values()}
    gaps = {m.what: m for m in [*(old.missing if old else ()), *graph.missing.values()] if m.what not in here}
    sweep = Sweep(
        track=track.info.id,
        title=track.title,
        measures=track.measures,
        profile=profile,
        edition=graph.edition,
        seed=seed,
        limit=limit,
        command=command,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        cells={a: k for a, k in cells.items() if a not in lines and a not in graph.missing},
        missing=tuple(gaps.values()),
        failed={
            a: line for a, line in {**(old.failed if old else {}), **lines}.items() if a in lines or a not in cells
        },
    )
    store.save_sweep(sweep)
    return sweep


def make_board(store: Store, track: Track, sweep: Sweep) -> Board:
    """Compute the tables of an edition and keep them."""
    records = records_of(store, sweep)
    query = ResultQuery(store, records)
    try:
        tables = track.tables(query) if records else []
    except HarnessError:
        raise
    except Exception as error:
        raise HarnessError(f"tables of {track.info.id} failed: {type(error).__name__}: {error}") from error
    board = Board(
        track=sweep.track,
        title=sweep.title,
        measures=sweep.measures,
        profile=sweep.profile,
        seed=sweep.seed,
        limit=sweep.limit,
        command=sweep.command,
        finished=sweep.finished,
        cells_done=len(records),
        cells_failed=len(sweep.failed),
        cells_missing=len(sweep.missing),
        tables=tuple(tables),
        missing=sweep.missing,
        failed=sweep.failed,
        versions=_versions(records),
        components=_components(records),
        sources=digest(sorted(record.key for record in records)),
    )
    store.save_board(board)
    return board


def records_of(store: Store, sweep: Sweep) -> list[TaskRecord]:
    """Return the records of an edition, and those that were imported."""
    imported = store.sweep(sweep.track, EXTERNAL)
    keys = [*sweep.cells.values(), *(imported.cells.values() if imported else ())]
    return [record for key in keys if (record := store.record(key)) is not None]


def _versions(records: list[TaskRecord]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}


def _components(records: list[TaskRecord]) -> tuple[ComponentRef, ...]:
    found = {(ref.kind, ref.label): ref for record in records for ref in record.spec.components.values()}
    return tuple(found[place] for place in sorted(found))
