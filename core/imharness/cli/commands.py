"""Functions for packages that add a command: find components, run a step by hand, and add results of others.

The public door is `imharness.extending`, which imports this module only when a command runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from imharness.cli import console
from imharness.components.registry import installed
from imharness.contracts.assets import add_folder as add_assets
from imharness.contracts.component import Component
from imharness.contracts.track import Option, Output, Progress, Query, StepContext, Track
from imharness.documents.leaderboards import Leaderboard
from imharness.errors import StoreError, UsageError
from imharness.exports.printing import page_file, writable, write_page
from imharness.ranking.current import current_records
from imharness.ranking.entries import known_entries, withdrawn_for
from imharness.ranking.leaderboard import make_leaderboard
from imharness.results.identity import digest
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.results.sweeps import Sweep
from imharness.results.tasks import EXTERNAL, IMPORTED, TaskRecord, TaskSpec
from imharness.running import pages
from imharness.running.context import BuildCache, TaskContext
from imharness.running.device import resolve_devices
from imharness.running.shards import Shards


def component(kind: str, name: str) -> Component:
    """Return one component by label, id or method; raises `UsageError` with the nearest names."""
    return installed().one(kind, name)


def find(kind: str, name: str) -> Component:
    """Return one component that can be built here; raises `Unavailable` if something that it needs is missing."""
    chosen = component(kind, name)
    chosen.require()
    return chosen


def device_of(device: str) -> torch.device:
    """Return the device that a name means: cpu, cuda, cuda:N or auto."""
    return torch.device(resolve_devices([device])[0])


def every(kind: str) -> list[Component]:
    """Return all installed components of a kind that can be built here, sorted by label."""
    return [c for c in installed().of_kind(kind) if c.is_here()]


def query(address: str | Path, track: str) -> Query:
    """Return the results of a track's latest run, with imported ones and without what was withdrawn.

    Raises `StoreError` if there is no run.
    """
    store = Store(address)
    records = _current(store, track)
    return ResultQuery(store, records, known_entries(store).facts(records))


def _current(store: Store, track: str) -> list[TaskRecord]:
    return current_records(store, installed().track(track), _latest(store, track), installed(), withdrawn_for(store))


def _latest(store: Store, track: str) -> Sweep:
    id = installed().track(track).info.id
    latest = store.latest(id)
    if latest is None:
        raise StoreError(f"store {store.address} has no results of {id}; run `harness run --track {id}` first")
    return latest


@dataclass(frozen=True)
class Finished:
    """A finished task: its key, the labels of its components by role, its options, and its output."""

    key: str
    labels: Mapping[str, str]
    options: Mapping[str, Option]
    output: Output


def finished(address: str | Path, track: str, step: str) -> Iterator[Finished]:
    """Yield the tasks of one step in a track's latest run, sorted by label, without what was withdrawn.

    Raises `StoreError` if there is no run.
    """
    store = Store(address)
    records = [r for r in _current(store, track) if r.spec.step == step and r.status == "done"]
    labelled = [({role: ref.label for role, ref in r.spec.components.items()}, r) for r in records]
    for labels, record in sorted(labelled, key=lambda pair: sorted(pair[0].items())):
        yield Finished(record.key, labels, record.spec.options, Output(store.rows(record), store.arrays(record)))


def build_site(address: str | Path, site: Path) -> None:
    """Build the site with the installed package that writes it; warnings say what was left out."""
    for line in pages.build_site(address, site):
        console.warn(line)


class _ByHand(TaskContext):
    """A step's context whose needs are arguments instead of tasks in a store."""

    def __init__(self, cache: BuildCache, spec: TaskSpec, progress: Progress, needs: Mapping[str, Output]) -> None:
        super().__init__(cache, Shards(cache.store, digest(spec.identity())), spec, progress)
        self._outputs = needs

    def need(self, name: str) -> Output:
        """Return an output that the caller gave."""
        return self._outputs[name]


def context(
    components: Mapping[str, Component],
    *,
    options: Mapping[str, Option] | None = None,
    needs: Mapping[str, Output] | None = None,
    limit: int | None = None,
    seed: int = 0,
    device: str = "auto",
    batch_size: int = 16,
    progress: Progress = lambda done, total: None,
) -> StepContext:
    """Return the context of a track's step for components by role; nothing is stored."""
    spec = TaskSpec(
        track="",
        step="",
        version="",
        components={role: component.ref() for role, component in components.items()},
        options=dict(options or {}),
        limit=limit,
        seed=seed,
        needs={},
    )
    cache = BuildCache(installed(), Store(Path()), device_of(device), batch_size)
    return _ByHand(cache, spec, progress, needs or {})


SOURCE = "file identity"
"""The option of an imported task that says what its file is known by, whatever it is called."""
PART = " part="
"""In the address of an imported task, what stands between the name of the file and the number of the part of it."""
Columns = Mapping[str, npt.NDArray[Any] | list[Any]]
"""Rows as columns of one length, by name."""


def add_external(
    address: str | Path,
    track_name: str,
    rows: Columns,
    name: str,
    about: Sequence[frozenset[str]] = (),
    *,
    measured: Sequence[str] = (),
    replace: bool = True,
    source: str = "",
) -> Leaderboard:
    """Add rows that someone else measured to a track, make its tables again, and return them.

    Args:
        address: the store.
        track_name: the label, id or method of the track.
        rows: the columns of the rows.
        name: the name of the file that the rows come from. A later import under this name replaces them.
        about: for each row, the keys of the tasks whose results it is about, as a vote is about two images; () if rows
            are about no task. The tables of a run that lacks one of these tasks leave the row out.
        measured: names of columns. Two rows with the same values in all of them are one measurement.
        replace: whether other rows under this name are replaced; otherwise they are an error.
        source: what a file that grows is known by, whatever it is called; its rows always replace its earlier ones.

    Raises:
        UsageError: all these rows, or others of this source, are in the store already under another name, or other rows
            are there under this name and not `replace`.
    """
    store, track = Store(address), installed().track(track_name)
    store.prepare()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    options = {"file": name} | ({SOURCE: source} if source else {})
    imported = _commit_rows(store, track, rows, options, about, now)
    with store.alone():
        earlier_sweep = store.sweep(track.info.id, EXTERNAL)
        earlier = dict(earlier_sweep.tasks) if earlier_sweep else {}
        of_other_files = {address: key for address, key in earlier.items() if _file_of(address) != name}
        tasks = of_other_files | {address: record.key for address, record in imported.items()}
        replaced = [key for address, key in earlier.items() if tasks.get(address) != key]
        if not replace and not all(source and _source_of(store.record(key)) == source for key in replaced):
            raise UsageError(
                f"{store.address} has other rows that were imported from a file {name}; give --replace to put these in "
                "their place, or the file another name to keep both."
            )
        _check_twice(store, rows, name, measured, list(imported.values()), of_other_files)
        store.save_sweep(_external_sweep(track, tasks, now))
        sweep = store.ranked_from(track.info.id)
        assert sweep is not None
        return make_leaderboard(store, track, sweep, known_entries(store))


def _file_of(address: str) -> str:
    """Return the name of the file that the rows of an imported task come from."""
    return address.removeprefix(IMPORTED).partition(PART)[0]


def _source_of(record: TaskRecord | None) -> str:
    """Return what the file of an imported task is known by, or ""."""
    return "" if record is None else str(record.spec.options.get(SOURCE, ""))


def _commit_rows(
    store: Store,
    track: Track,
    rows: Columns,
    options: Mapping[str, str],
    about: Sequence[frozenset[str]],
    now: str,
) -> dict[str, TaskRecord]:
    """Write the rows of a file as tasks, one for all rows that are about the same tasks; return address -> record.

    `options` of the tasks have the name of the file, and what it is known by.
    """
    count = len(next(iter(rows.values()), ()))
    positions_by_keys: dict[frozenset[str], list[int]] = {}
    for position, keys in zip(range(count), about or [frozenset[str]()] * count, strict=True):
        positions_by_keys.setdefault(keys, []).append(position)
    imported: dict[str, TaskRecord] = {}
    for number, (keys, positions) in enumerate(positions_by_keys.items()):
        columns = {column: np.asarray(values)[positions] for column, values in rows.items()} if about else rows
        spec = TaskSpec(
            track=track.info.id,
            step=EXTERNAL,
            version="1",
            components={},
            options=options,
            limit=None,
            seed=0,
            needs={f"about {position}": key for position, key in enumerate(sorted(keys))},
        )
        tasks_about = {need: store.record(key) for need, key in spec.needs.items()}
        record = TaskRecord(
            key=digest([spec.identity(), {column: [str(v) for v in values] for column, values in columns.items()}]),
            spec=spec,
            status="done",
            read={need: task.outcome for need, task in tasks_about.items() if task is not None},
            started=now,
            seconds=0.0,
            device="external",
            versions={},
        )
        suffix = f"{PART}{number}" if about else ""
        imported[f"{IMPORTED}{options['file']}{suffix}"] = store.commit(record, columns, {})
    return imported


def _check_twice(
    store: Store,
    rows: Columns,
    name: str,
    measured: Sequence[str],
    imported: Sequence[TaskRecord],
    of_other_files: Mapping[str, str],
) -> None:
    """Raise `UsageError` if the rows of another file are the same, and warn if some of them are.

    Rows are the same if all their columns and the tasks that they are about are equal, or if `measured` columns are, or
    if they are of one file that grows.
    `of_other_files` is address -> key of the tasks of other files.
    """
    count = len(next(iter(rows.values()), ()))
    contents = {(record.rows, frozenset(record.spec.needs.values())) for record in imported}
    for address, key in of_other_files.items():
        record = store.record(key)
        if record is None:
            continue
        file = _file_of(address)
        repeated = _measurements(rows, measured) & _measurements(store.rows(record), measured)
        same_content = (record.rows, frozenset(record.spec.needs.values())) in contents
        all_repeated = count > 0 and len(repeated) == count
        same_source = _source_of(record) != "" and any(_source_of(record) == _source_of(each) for each in imported)
        if same_content or all_repeated or same_source:
            raise UsageError(
                f"rows of {name} stand in {store.address} already, imported from {file}, and would count twice; "
                f"call the file {file} to replace them."
            )
        if repeated:
            console.warn(
                f"{len(repeated)} of {count} rows of {name} stand in {store.address} already, imported from {file}, "
                "and count twice; leave them out of one of the files"
            )


def _external_sweep(track: Track, tasks: Mapping[str, str], now: str) -> Sweep:
    """Return the run that stands for all imported rows of a track; `tasks` is address -> key."""
    return Sweep(
        track=track.info.id,
        title=track.title,
        measures=track.measures,
        profile=EXTERNAL,
        run_configuration=EXTERNAL,
        seed=0,
        limit=None,
        command="",
        finished=now,
        tasks=tasks,
        missing=(),
    )


def _measurements(rows: Columns, measured: Sequence[str]) -> set[tuple[Any, ...]]:
    """Return the values of the `measured` columns of each row; empty if rows lack one of these columns."""
    columns = [np.asarray(rows[column]).tolist() for column in measured if column in rows]
    return set(zip(*columns, strict=True)) if len(columns) == len(measured) else set()


__all__ = [
    "Finished",
    "add_assets",
    "add_external",
    "build_site",
    "component",
    "console",
    "context",
    "device_of",
    "every",
    "find",
    "finished",
    "page_file",
    "query",
    "writable",
    "write_page",
]
