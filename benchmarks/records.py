"""A store of many finished tasks: what it takes to find them again and verify them.

``IMHARNESS_RECORDS=1e6`` says how many there are, 100,000 unless told. Tasks have no rows: `tables` measures these.
"""

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.timing import Line
from imharness.cli.stores import verify
from imharness.planning.plan import Task
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.sweep import RunResult, finished_before

AT = 100_000
"""The number of tasks, unless the environment says another."""


def lines() -> list[Line]:
    """Return seconds by the clock of each step, and the peak of memory."""
    many = int(float(os.environ.get("IMHARNESS_RECORDS", AT)))
    results: list[Line] = []

    def timed(what: str, function: Callable[[], object]) -> None:
        start = time.perf_counter()
        function()
        results.append(Line(f"{many:,} tasks, {what}, s", f"{time.perf_counter() - start:.1f}", "", True))

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

        timed("found again", resume)
        timed("verified", verified)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [*results, Line(f"{many:,} tasks, GiB of memory at most", f"{peak:.2f}", "", True)]


def _written(root: Path, many: int) -> dict[str, Task]:
    """Write records as a run does; return what was planned."""
    store = Store(root)
    store.prepare()
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
        )
        store.commit(record, {}, {})
        tasks[key] = Task(key, key, spec)
    return tasks
