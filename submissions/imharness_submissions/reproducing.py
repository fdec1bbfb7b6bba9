"""Compute stored cells again and compare: an entry's own, or those of canaries, whose numbers are known."""

from __future__ import annotations

import importlib.resources
import json
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from imharness.components.registry import Registry, installed
from imharness.contracts.track import Progress
from imharness.errors import HarnessError, UsageError
from imharness.planning.plan import plan_track
from imharness.planning.profile import load_profile
from imharness.ranking.board import refresh_standing
from imharness.results.records import TaskRecord
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness.running.device import device_name
from imharness_submissions.ledger import Ledger
from imharness_submissions.manifest import Submission
from imharness_submissions.opening import RunningSubmission, open_submission
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.stored import StoredSubmission, kept

TOLERANCE = 1e-3
BATCH = 16


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReproducedTask(_Frozen):
    """A cell that was computed again: its largest difference, in shares of each column's span (at least 1)."""

    cell: str
    difference: float | None
    holds: bool
    why: str = ""


class Canary(_Frozen):
    """A cell of known numbers: the first one of `step` that a narrowed plan has."""

    name: str
    track: str
    only: Mapping[str, tuple[str, ...]]
    limit: int = Field(ge=1)
    step: str
    column: str
    values: tuple[float, ...]
    tolerance: float = Field(gt=0)


def reproduce(
    name: str, store: Store, *, sample: int, tolerance: float, seed: int, device: str, trusted: bool, advance: Progress
) -> list[ReproducedTask]:
    """Compute a sample of an entry's cells again, compare them, and write the outcome into the ledger.

    `name` is a submission of the store, or the id or label of an installed component.
    """
    found = {path.stem: path for path in store.submissions()}
    if name in found:
        submitted = kept(found[name])
        opened = _open(submitted, trusted)
        ids, registry, guest = opened.ids, opened.registry, opened.guest
        device = device if opened.submission.hardware.gpu else "cpu"
    else:
        ids, registry, guest = (_installed_id(name),), installed(), None
    try:
        records = _records(store, set(ids))
        if not records:
            raise UsageError(f"store {store.root} has no finished cell of {name}.")
        chosen = random.Random(seed).sample(records, min(sample, len(records)))
        results = _again(chosen, store, registry, guest, tolerance, device, advance)
    finally:
        if guest is not None:
            guest.kill()
    held = sum(result.holds for result in results)
    worst = max((r.difference for r in results if r.difference is not None), default=float("nan"))
    reason = f"{held} of {len(results)} cells within {tolerance:g}, largest difference {worst:.2g}, "
    reason += f"of {len(records)} cells, on {device_name(torch.device(device))}"
    Ledger(store.root).append(name, ids, "reproduced" if held == len(results) else "not reproduced", reason)
    for track in store.tracks():
        board = store.board(track)
        if board is not None:
            refresh_standing(store, board)
    return results


def _installed_id(name: str) -> str:
    for entry in installed().entries.values():
        component = entry.component
        if name in (component.label, component.info.id, component.info.id.partition("/")[2]):
            return component.info.id
    raise UsageError(f"{name!r} is no submission of this store and no installed component.")


def _open(submitted: StoredSubmission, trusted: bool) -> RunningSubmission:
    submission = Submission.model_validate(submitted.manifest)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(submitted.folder)
        if not folder.is_dir():
            folder = Path(work)
            (folder / "requirements.txt").write_text("\n".join(submitted.lock))
        opened = open_submission(folder, submission, trusted=trusted)
    if opened.offer.environment != submitted.offer.environment:
        opened.guest.kill()
        raise HarnessError(f"{submitted.name}: the package has other files than the one that was measured")
    return opened


def _records(store: Store, ids: set[str]) -> list[TaskRecord]:
    keys = {key for track in store.tracks() for sweep in store.sweeps(track) for key in sweep.cells.values()}
    records = [record for key in sorted(keys) if (record := store.record(key)) is not None]
    return [
        r for r in records if r.status == "done" and any(ref.id in ids for ref in r.spec.components.values())
    ]  # fmt: skip


def _again(
    records: Sequence[TaskRecord], store: Store, registry: Registry, guest: Guest | None,
    tolerance: float, device: str, advance: Progress,
) -> list[ReproducedTask]:  # fmt: skip
    found = []
    with tempfile.TemporaryDirectory() as work:
        fresh = Store(Path(work))
        bench = BuildCache(registry, fresh, torch.device(device), BATCH, _ender(guest))
        for number, record in enumerate(records):
            for need in record.spec.needs.values():
                fresh.adopt(store, need)
            made = run_task(bench, record.key, record.spec, lambda done, total: None)
            found.append(_compared(record, store, made, fresh, tolerance))
            advance(number + 1, len(records))
    return found


def _ender(guest: Guest | None) -> Callable[[bool], list[str]]:
    def end_task(failed: bool) -> list[str]:
        if guest is None:
            return []
        guest.end_task(failed)
        return guest.taken()

    return end_task


def _compared(record: TaskRecord, store: Store, made: TaskRecord, fresh: Store, tolerance: float) -> ReproducedTask:
    cell = f"{record.spec.track} {record.spec.describe()}"
    if made.failure is not None:
        return ReproducedTask(cell=cell, difference=None, holds=False, why=made.failure.message)
    before = {**store.rows(record), **store.arrays(record)}
    after = {**fresh.rows(made), **fresh.arrays(made)}
    if before.keys() != after.keys():
        return ReproducedTask(cell=cell, difference=None, holds=False, why="other columns")
    worst = max((_difference(before[name], after[name]) for name in before), default=0.0)
    return ReproducedTask(cell=cell, difference=worst, holds=worst <= tolerance)


def _difference(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> float:
    """Return the largest difference as a share of the span; infinite where shapes or words differ."""
    if before.shape != after.shape:
        return float("inf")
    if before.dtype.kind not in "fiub":
        return 0.0 if (before == after).all() else float("inf")
    first, second = before.astype(np.float64), after.astype(np.float64)
    if not np.array_equal(np.isnan(first), np.isnan(second)):
        return float("inf")
    span = max(1.0, float(np.nanmax(np.abs(first), initial=0.0)))
    return float(np.nanmax(np.abs(first - second), initial=0.0)) / span


def canaries() -> list[Canary]:
    """Return the canaries that ship with the harness."""
    text = (importlib.resources.files("imharness_submissions") / "canaries.json").read_text()
    return TypeAdapter(list[Canary]).validate_json(text)


def sing(canary: Canary, device: str) -> tuple[Canary, float]:
    """Compute a canary's cell; return it with the values of this machine, and their largest difference from the known.

    Raises `HarnessError` when the cell cannot be computed here.
    """
    only = {kind: list(names) for kind, names in canary.only.items()}
    graph = plan_track(canary.track, load_profile("embedded"), installed(), only=only, limit=canary.limit)
    wanted = next((key for key, task in graph.tasks.items() if task.spec.step == canary.step), None)
    if wanted is None:
        raise HarnessError(f"canary {canary.name}: no cell of step {canary.step} can be planned here")
    with tempfile.TemporaryDirectory() as work:
        store = Store(Path(work))
        bench = BuildCache(installed(), store, torch.device(device), BATCH)
        for key in _with_needs(wanted, {key: list(task.spec.needs.values()) for key, task in graph.tasks.items()}):
            record = run_task(bench, key, graph.tasks[key].spec, lambda done, total: None)
            if record.failure is not None:
                raise HarnessError(f"canary {canary.name}: {record.failure.who}: {record.failure.message}")
        values = tuple(float(v) for v in store.rows(record)[canary.column])
    known = np.array(canary.values)
    drift = float(np.abs(np.array(values) - known).max()) if len(known) == len(values) else float("inf")
    return canary.model_copy(update={"values": values}), drift


def _with_needs(key: str, needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a task behind everything it needs."""
    ordered: list[str] = []
    for need in needs[key]:
        ordered += [k for k in _with_needs(need, needs) if k not in ordered]
    return [*ordered, key]


def recorded(found: Sequence[Canary]) -> str:
    """Return canaries as the file they are read from."""
    return json.dumps([c.model_dump(mode="json") for c in found], indent=1) + "\n"
