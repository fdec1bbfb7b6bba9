"""A store of many finished tasks: what it takes to find them again, verify them and pack them.

``IMHARNESS_RECORDS=1e6`` says how many there are, 100,000 unless told. Tasks have no rows: `tables` measures these.
"""

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.timing import Line
from imharness.cli.stores import compact, verify
from imharness.planning.plan import Task
from imharness.results.identity import ComponentRef, digest
from imharness.results.storage.cells import task_file
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.sweep import RunResult, finished_before

RESUME_S, AT = 2.0, 100_000
"""Seconds that a resume may take, and the number of packed tasks for which it holds."""


def lines() -> list[Line]:
    """Return seconds by the clock of each step, and the peak of memory."""
    many = int(float(os.environ.get("IMHARNESS_RECORDS", AT)))
    found: list[Line] = []

    def timed(what: str, work: Callable[[], object], goal: float = 0.0) -> None:
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        found.append(
            Line(
                f"{many:,} tasks, {what}, s",
                f"{seconds:.1f}",
                f"<= {goal:g}" if goal else "",
                not goal or seconds <= goal,
            )
        )

    with tempfile.TemporaryDirectory() as folder:
        tasks = _written(Path(folder), many)

        def resume() -> None:
            outcome = RunResult()
            finished_before(Store(folder), tasks, outcome)
            if outcome.reused != many:
                raise RuntimeError(f"{outcome.reused:,} of {many:,} tasks were found")

        def verified() -> None:
            damaged = list(verify(Store(folder)))
            if damaged:
                raise RuntimeError(damaged[0])

        timed("found again, a file each", resume)
        timed("verified, a file each", verified)
        timed("packed", lambda: compact(Store(folder)))
        timed("found again, packed", resume, RESUME_S * many / AT)
        timed("verified, packed", verified)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [*found, Line(f"{many:,} tasks, GiB of memory at most", f"{peak:.2f}", "", True)]


def _written(root: Path, many: int) -> dict[str, Task]:
    """Write records as a run does, but for flushing each to disk; return what was planned."""
    Store(root).prepare()
    component = ComponentRef(kind="metric", id="acme/metric", version="1", label="metric", parameters={})
    tasks: dict[str, Task] = {}
    for number in range(many):
        spec = TaskSpec(
            track="acme/track",
            step="score",
            version="1",
            components={"metric": component},
            options={"number": number},
            limit=None,
            seed=0,
            needs={},
        )
        key = digest(spec.identity())
        record = TaskRecord(
            key=key,
            spec=spec,
            status="done",
            started="2026",
            seconds=0.1,
            device="cpu",
            versions={},
            facts={"score": float(number)},
        ).sealed()
        path = root / task_file(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record.model_dump_json(indent=1).encode())
        tasks[key] = Task(key, key, spec)
    return tasks
