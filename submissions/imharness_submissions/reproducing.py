"""Computes stored tasks again and compares them: tasks of an entry, or canaries, whose numbers are known."""

from __future__ import annotations

import importlib.resources
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from imharness.components.registry import installed
from imharness.contracts.track import Progress
from imharness.documents.seasons import season_of
from imharness.documents.stored import read_leaderboard
from imharness.errors import DamagedError, HarnessError, StoreError, UsageError
from imharness.planning.photographs import check_prepared
from imharness.planning.profile import Profile
from imharness.planning.profiles import load_profile
from imharness.planning.secret import digest_of
from imharness.ranking.entries import known_entries
from imharness.results.identity import HARNESS, owner_of
from imharness.results.labels import method_of
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness.running.device import recorded_name
from imharness.running.secret_split import seeds_of_task
from imharness.running.session import Session
from imharness_submissions.ledger import Decision, Ledger
from imharness_submissions.manifest import Submission
from imharness_submissions.opening import RunningSubmission, open_submission
from imharness_submissions.sandbox.stored import SUBMISSIONS, StoredSubmission, read_submission
from imharness_submissions.sandbox.worker import guest_beside
from imharness_submissions.standings import refresh_standing
from imharness_submissions.store_secret import known_secret


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReproducedTask(_Frozen):
    """A task that was computed again. `difference` is the largest one, as a share of max(1, max |x|) of its column."""

    task: str
    difference: float | None
    holds: bool
    why: str = ""


class Canary(_Frozen):
    """A task whose numbers are known, by which a change of the machine or the libraries is noticed.

    It is the first task of `step` in a plan that is narrowed to `only`. `values` are its numbers in `column`, and
    `tolerance` is how far each may be off.
    """

    name: str
    track: str
    only: Mapping[str, tuple[str, ...]]
    limit: int = Field(ge=1)
    step: str
    column: str
    values: tuple[float, ...]
    tolerance: float = Field(gt=0)


def reproduce(
    name: str,
    store: Store,
    *,
    sample: int,
    tolerance: float,
    seed: int,
    device: str,
    trusted: bool,
    advance: Progress,
    secret: str = "",
) -> list[ReproducedTask]:
    """Compute a sample of an entry's tasks again, compare them, and write the outcome into the ledger.

    `name` is a submission of the store, or the id or label of an installed component. `sample` is the number of tasks,
    `tolerance` a share of max(1, max |x|) of each column. `secret`: the seed of the secret split that the store is of.
    Raises `UsageError` when the store has no finished task of it, or has tasks of another split. A season that is
    closed has revealed its seed, and its ledger stays as it is.
    """
    season = season_of(store)
    if season is not None:
        secret = secret or season.revealed
        if season.photographs is not None:
            check_prepared(season, secret)
    if name in store.names(SUBMISSIONS):
        submitted = read_submission(store, name)
        opened = reopened(submitted, trusted)
        ids, running = opened.ids, opened
        device = device if opened.submission.hardware.gpu else "cpu"
    else:
        ids, running = (_installed_id(name),), None
    try:
        records = _records(store, set(ids))
        if not records:
            raise UsageError(f"store {store.address} has no finished task of {name}.")
        if running is not None:
            running.guest.stream_secret = secret or stream_secret_of(records, running, known_secret(store))
        seeds = [seed_of(record, secret, known_secret(store)) for record in records]
        chosen = random.Random(seed).sample(list(zip(records, seeds, strict=True)), min(sample, len(records)))
        results = _again(chosen, store, running, tolerance, device, advance, secret)
    finally:
        if running is not None:
            running.guest.kill()
    if season is not None and season.closed:
        return results
    reproduced = sum(result.holds for result in results)
    worst = max((r.difference for r in results if r.difference is not None), default=float("nan"))
    reason = f"{reproduced} of {len(results)} tasks within {tolerance:g}, largest difference {worst:.2g}, "
    reason += f"of {len(records)} tasks, on {recorded_name(torch.device(device))}"
    decided: Decision = "reproduced" if reproduced == len(results) else "not reproduced"
    Ledger(store.address).append(ids[0] if running is None else name, ids, decided, reason)
    with store.alone():
        store_entries = known_entries(store)
        for track in store.tracks():
            leaderboard = read_leaderboard(store, track)
            if leaderboard is not None:
                refresh_standing(store, leaderboard, store_entries)
    return results


def _installed_id(name: str) -> str:
    components = [entry.component for entry in installed().entries.values()]
    for component in sorted(components, key=lambda candidate: owner_of(candidate.info.id) != HARNESS):
        if name in (component.label, component.info.id, method_of(component.info.id)):
            return component.info.id
    raise UsageError(f"{name!r} is neither a submission of this store nor an installed component.")


def reopened(submitted: StoredSubmission, trusted: bool) -> RunningSubmission:
    submission = Submission.model_validate(submitted.manifest)
    with tempfile.TemporaryDirectory() as workspace:
        folder = Path(submitted.folder)
        if not folder.is_dir():
            folder = Path(workspace)
            (folder / "requirements.txt").write_text("\n".join(submitted.lock), encoding="utf-8")
        opened = open_submission(folder, submission, trusted=trusted)
    if opened.description.environment != submitted.description.environment:
        opened.guest.kill()
        raise HarnessError(f"{submitted.name}: its package is not the one that was measured: the files differ")
    return opened


def _records(store: Store, ids: set[str]) -> list[TaskRecord]:
    """Return the finished tasks of components, sorted by key, without those in which another submission takes part.

    An example is an attack on a distance along the gradient of another submission's distance: such a task can only be
    computed again while that other package runs, too.
    """
    here = ids | {entry.component.info.id for entry in installed().entries.values()}
    keys = {key for track in store.tracks() for sweep in store.sweeps(track) for key in sweep.tasks.values()}
    records = []
    for _, record in store.records(keys):
        if isinstance(record, DamagedError):
            raise record
        used = {ref.id for ref in record.spec.components.values()}
        if record.status == "done" and used & ids and used <= here:
            records.append(record)
    return sorted(records, key=lambda record: record.key)


def stream_secret_of(records: Sequence[TaskRecord], running: RunningSubmission, secret: str) -> str:
    """Return the secret from which the package's random streams followed in some tasks: `secret`, or "".

    The content of a component that draws is the digest of its package and the secret (`Sandboxed.content`). In older
    tasks it is that of the package alone; their streams followed from no secret.
    """
    refs = [ref for record in records for ref in record.spec.components.values() if ref.id in running.ids]
    used_secret = any(ref.content != running.description.environment for ref in refs)
    return secret if used_secret else ""


def seed_of(record: TaskRecord, *seeds: str) -> str:
    """Return which of some seeds makes the split that a task is of, "" for the public split.

    Raises `UsageError` if none of them does.
    """
    matching_seed = next((seed for seed in seeds if digest_of(seed) == record.spec.split), seeds[0])
    seeds_of_task(matching_seed, record.spec.seed, record.spec.options)
    return matching_seed if record.spec.split else ""


def _again(
    tasks: Sequence[tuple[TaskRecord, str]],
    store: Store,
    running: RunningSubmission | None,
    tolerance: float,
    device: str,
    advance: Progress,
    secret: str,
) -> list[ReproducedTask]:
    """Compute tasks again, each with the seed of its split, and compare them; `secret` is that of the whole store."""
    beside = [] if running is None else [guest_beside(running.guest, running.description, secret)]
    results = list[ReproducedTask]()
    with tempfile.TemporaryDirectory() as workspace:
        fresh = Store(Path(workspace))
        for seed in dict.fromkeys(seed for _, seed in tasks):
            profile = Profile(name="again", description="Tasks of a store.", secret=seed)
            session = Session(fresh, profile, devices=[device], workers=0, prepare=beside)
            with session.one_by_one() as compute:
                for record, record_seed in tasks:
                    if record_seed != seed:
                        continue
                    for need in record.spec.needs.values():
                        _adopt(fresh, store, need)
                    results.append(_compared(record, store, compute(record.key, record.spec), fresh, tolerance))
                    advance(len(results), len(tasks))
    return results


def _adopt(fresh: Store, store: Store, key: str) -> None:
    """Copy a finished task, verified."""
    record = store.record(key)
    if record is None:
        raise StoreError(f"store {store.address} has no task {key[:12]}")
    fresh.commit(record, store.rows(record), store.arrays(record))


def _compared(
    record: TaskRecord, store: Store, fresh_record: TaskRecord, fresh: Store, tolerance: float
) -> ReproducedTask:
    task = f"{record.spec.track} {record.spec.describe()}"
    if fresh_record.failure is not None:
        return ReproducedTask(task=task, difference=None, holds=False, why=fresh_record.failure.message)
    before = {**store.rows(record), **store.arrays(record)}
    after = {**fresh.rows(fresh_record), **fresh.arrays(fresh_record)}
    if before.keys() != after.keys():
        return ReproducedTask(task=task, difference=None, holds=False, why="other columns")
    worst = max((_difference(before[name], after[name]) for name in before), default=0.0)
    return ReproducedTask(task=task, difference=worst, holds=worst <= tolerance)


def _difference(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> float:
    """Return max |x - y| / max(1, max |x|) for `before` x; infinite where shapes, words or missing numbers differ."""
    if before.shape != after.shape:
        return float("inf")
    if before.dtype.kind not in "fiub":
        return 0.0 if (before == after).all() else float("inf")
    first, second = before.astype(np.float64), after.astype(np.float64)
    if not np.array_equal(np.isnan(first), np.isnan(second)):
        return float("inf")
    size = max(1.0, float(np.nanmax(np.abs(first), initial=0.0)))
    return float(np.nanmax(np.abs(first - second), initial=0.0)) / size


def canaries() -> list[Canary]:
    """Return the canaries that ship with the harness."""
    text = (importlib.resources.files("imharness_submissions") / "canaries.json").read_text(encoding="utf-8")
    return TypeAdapter(list[Canary]).validate_json(text)


def sing(canary: Canary, device: str) -> tuple[Canary, float]:
    """Compute a canary's task; return it with the values of this machine, and the largest difference to known values.

    Raises `HarnessError` when the task cannot be computed here.
    """
    only = {kind: list(names) for kind, names in canary.only.items()}
    with tempfile.TemporaryDirectory() as workspace:
        session = Session(
            Store(Path(workspace)), load_profile("embedded"), limit=canary.limit, devices=[device], workers=0
        )
        (graph,) = session.plan([canary.track], only=only)
        wanted = next((key for key, task in graph.tasks.items() if task.spec.step == canary.step), None)
        if wanted is None:
            raise HarnessError(f"canary {canary.name}: no task of step {canary.step} can be planned here")
        with session.one_by_one() as compute:
            for key in _with_needs(wanted, {key: list(task.spec.needs.values()) for key, task in graph.tasks.items()}):
                record = compute(key, graph.tasks[key].spec)
                if record.failure is not None:
                    raise HarnessError(f"canary {canary.name}: {record.failure.who}: {record.failure.message}")
        values = tuple(float(v) for v in session.store.rows(record)[canary.column])
    expected = np.array(canary.values)
    drift = float(np.abs(np.array(values) - expected).max()) if len(expected) == len(values) else float("inf")
    return canary.model_copy(update={"values": values}), drift


def _with_needs(key: str, needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a task and everything it needs, in the order in which they can be computed."""
    ordered: list[str] = []
    for need in needs[key]:
        ordered += [k for k in _with_needs(need, needs) if k not in ordered]
    return [*ordered, key]


def recorded(new_canaries: Sequence[Canary]) -> str:
    """Return the content of the file from which canaries are read."""
    return json.dumps([c.model_dump(mode="json") for c in new_canaries], indent=1) + "\n"
