"""Finds one task of a store by the first digits of its key: its record, its log, and whether it is being computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
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
    """What a store knows about a task. `log` is from its last attempt; `running` is set while it is being computed."""

    key: str
    record: TaskRecord | None
    log: TaskLog | None
    running: tuple[RunState, Busy] | None


def found_task(store: Store, start: str) -> Found:
    """Return the task whose key begins with these digits; raises `UsageError` unless there is exactly one.

    A damaged log is ignored.
    """
    now = datetime.now(UTC)
    going = [run for run in run_states(store) if run.state == "running" and run.silent_s(now) < SILENT_S]
    busy = {own.key: (run, own) for run in going for own in run.running if own.key.startswith(start)}
    known = {key for key in store.all_keys() if key.startswith(start)}
    matches = sorted(known | busy.keys() | {*keys_of_logs(store, start)})
    if len(matches) != 1:
        raise UsageError(f"{len(matches)} tasks start with {start!r}; see `harness results list`.")
    (key,) = matches
    record, log = store.record(key), None
    with suppress(DamagedError):
        log = log_of(store, key)
    if record is not None and log is not None and log.updated < record.started:
        log = None  # it is from an earlier attempt; the last one printed nothing
    return Found(key, record, log, busy.get(key))


def log_lines(found: Found) -> Iterator[str]:
    """Yield lines that say where a task is being computed, and the lines of its log."""
    if found.running is not None:
        run, own = found.running
        yield f"{found.key}: running for {duration(own.seconds)} in the run of {run.host}, process {run.pid}"
        yield f"{short(own.track)} {own.task}"
    elif found.record is None:
        yield f"{found.key}: no result; its worker ended, took too long, or is still at work"
    if found.log is None:
        return
    newer = found.record is not None and found.log.started > found.record.started
    what = "log of a later attempt, which has no result" if newer else "log"
    yield f"{what}, {found.log.host}, process {found.log.pid}, {found.log.started} to {found.log.updated}:"
    yield from found.log.text.rstrip("\n").split("\n")
