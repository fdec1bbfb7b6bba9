"""The executor on Ray: tasks per second, how much of the workers' time it uses, and the time until the first result."""

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Line
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.store import Store
from imharness.running.executor import Executor, Preparation, open_executor
from imharness.running.sweep import execute
from imharness.tracks import Info, Planner, Query, Selection, StepContext, StepResult, Track, TrackReport, step

ROWS = 100
"""The number of rows of a task."""
SHORT, CORES, RATE = 3_000, 2, 400.0
"""Short tasks: their number, the workers, and the least tasks per second."""
NAP_S, SLOTS, NAPS, SHARE = 0.1, 12, 1_200, 0.94
"""Tasks that only sleep: how long, on how many workers, their number, and the least share of the workers' time in which
they sleep."""
FIRST_S = 20.0
"""The longest time until the first result, s."""
WORKER_GB = 0.4
"""The memory that is reserved for a worker, GB."""


@step(version="1")
def timed(context: StepContext) -> StepResult:
    """Sleep for the seconds in the task's options, and return `ROWS` rows."""
    time.sleep(float(context.options["seconds"]))
    return StepResult(rows={"name": [str(n) for n in range(ROWS)], "score": np.arange(ROWS, dtype=np.float32)})


class Timed(Track):
    """A track whose tasks take a given time."""

    info = Info(id="benchmark/timed", version="1")
    title = "Timed"
    measures = "Nothing."
    steps = (timed,)
    tasks: int = 0
    seconds: float = 0.0

    def plan(self, planner: Planner, selection: Selection) -> None:
        for number in range(self.tasks):
            planner.task(timed, options={"number": number, "seconds": self.seconds})

    def report(self, query: Query) -> TrackReport:
        return TrackReport()


ORIGIN = Provenance("benchmark", "1")


def prepare(facts: Mapping[str, Any]) -> Preparation:
    """Bring the track to a worker, and let the worker write a file, named after its process, after each task.

    The files tell which workers have started completely.
    """

    def end_task(failed: bool) -> list[str]:
        (Path(facts["worked"]) / str(os.getpid())).touch()
        return []

    return Preparation([Registered(Timed(), "benchmark", ORIGIN)], end_task)


class SharedExecutor:
    """An executor that several runs use one after the other: the end of a run does not close it."""

    def __init__(self, inner: Executor) -> None:
        self._inner, self.submit, self.reports = inner, inner.submit, inner.reports

    @property
    def idle(self) -> int:
        return self._inner.idle

    def close(self) -> None:
        """Do nothing; whoever opened the inner executor closes it."""


def lines() -> list[Line]:
    """Return the speed of short tasks and of sleeping ones, each on a cluster that is started for it."""
    rate, first = _measured(CORES, SHORT, 0.0)
    naps_per_second, _ = _measured(SLOTS, NAPS, NAP_S)
    share = naps_per_second * NAP_S / SLOTS
    return [
        Line(f"tasks of {ROWS} rows on {CORES} cores", f"{rate:.0f}/s", f">= {RATE:g}/s", rate >= RATE),
        Line(
            f"{SLOTS} slots, tasks of {NAP_S:g} s: share of the slots' time",
            f"{100 * share:.0f} %",
            f">= {100 * SHARE:g} %",
            share >= SHARE,
        ),
        Line("first result, with the start of Ray", f"{first:.1f} s", f"<= {FIRST_S:g} s", first <= FIRST_S),
    ]


def _measured(slots: int, tasks: int, seconds: float) -> tuple[float, float]:
    """Return tasks per second after all workers have computed one, and the time until the first result, s."""
    from imharness_ray.cluster import ray

    start, first = time.perf_counter(), list[float]()
    ray.init("local", num_cpus=slots, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    with tempfile.TemporaryDirectory() as folder:
        store, worked = Store(Path(folder)), Path(folder) / "worked"
        worked.mkdir()
        executor = open_executor(
            store.address,
            name="ray",
            devices=["cpu"],
            prepare=[(f"{__name__}:prepare", {"worked": str(worked)})],
            settings={"memory_per_worker": WORKER_GB},
        )

        def note_first(ended: Any, running: Any) -> None:
            if ended.done:
                first.append(time.perf_counter() - start)

        try:
            while len(list(worked.iterdir())) < slots:  # until every worker has computed a task
                graph = _graph(3 * slots, NAP_S, seed=len(first))
                execute([graph], store, lambda: SharedExecutor(executor), watch=note_first)
            graph, begun = _graph(tasks, seconds, seed=-1), time.perf_counter()
            execute([graph], store, lambda: SharedExecutor(executor))
            return tasks / (time.perf_counter() - begun), first[0]
        finally:
            executor.close()
            ray.shutdown()


def _graph(tasks: int, seconds: float, seed: int) -> Graph:
    """Return a plan of tasks; plans with different seeds share no task."""
    registry = installed().joined([Registered(Timed(tasks=tasks, seconds=seconds), "benchmark", ORIGIN)])
    profile = Profile(name="timed", description="", tracks={"benchmark/timed": TrackProfile(select={})})
    return plan_track("benchmark/timed", profile, registry, seed=seed)
