"""Finds one task of a store by the first digits of its key: its record, its log, and whether it is being computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from imharness.cli.progress import duration
from imharness.errors import DamagedError, UsageError
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness.running.logs import TaskLog, keys_of_logs, log_of
from imharness.running.schedule.state import SILENT_S, Busy, RunState, run_states
from imharness.running.views import short


@dataclass(frozen=True)
class Found:
    """What a store knows about a task. `log` is from its last attempt; `running` is set while it is being computed.

    `damaged`: a line for each file that could not be read.
    """

    key: str
    record: TaskRecord | None
    log: TaskLog | None
    running: tuple[RunState, Busy] | None
    damaged: tuple[str, ...]


def found_task(store: Store, start: str) -> Found:
    """Return the task whose key begins with these digits; raises `UsageError` unless there is exactly one."""
    now, damaged = datetime.now(UTC), list[str]()
    going = [
        run for run in run_states(store, damaged.append) if run.state == "running" and run.silent_s(now) < SILENT_S
    ]
    busy = {task.key: (run, task) for run in going for task in run.running if task.key.startswith(start)}
    stored_keys = {key for key in store.all_keys() if key.startswith(start)}
    matches = sorted(stored_keys | busy.keys() | {*keys_of_logs(store, start)})
    if len(matches) != 1:
        raise UsageError(f"{len(matches)} tasks start with {start!r}; see `harness results list`.")
    (key,) = matches
    record, log = store.record(key), None
    try:
        log = log_of(store, key)
    except DamagedError as error:
        damaged.append(str(error))
    if record is not None and log is not None and log.updated < record.started:
        log = None  # it is from an earlier attempt; the last one printed nothing
    return Found(key, record, log, busy.get(key), tuple(damaged))


def log_lines(task: Found) -> Iterator[str]:
    """Yield lines that say where a task is being computed, and the lines of its log."""
    if task.running is not None:
        run, running = task.running
        yield f"{task.key}: running for {duration(running.seconds)} in the run of {run.host}, process {run.pid}"
        yield f"{short(running.track)} {running.task}"
    elif task.record is None:
        yield f"{task.key}: no result; its worker ended, took too long, or is still at work"
    if task.log is None:
        return
    newer = task.record is not None and task.log.started > task.record.started
    what = "log of a later attempt, which has no result" if newer else "log"
    yield f"{what}, {task.log.host}, process {task.log.pid}, {task.log.started} to {task.log.updated}:"
    yield from task.log.text.rstrip("\n").split("\n")
