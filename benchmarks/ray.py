"""The executor on Ray: tasks a second, how much of the slots it uses, and how long until the first result."""

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
SHORT, CORES, RATE = 3_000, 2, 400.0
NAP_S, SLOTS, NAPS, SHARE = 0.1, 12, 1_200, 0.94
FIRST_S = 20.0
WORKER_GB = 0.4


@step(version="1")
def timed(context: StepContext) -> StepResult:
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
    """Bring the track, and note of a worker that it has computed a task: only then it is ready for the next."""

    def end_task(failed: bool) -> list[str]:
        (Path(facts["worked"]) / str(os.getpid())).touch()
        return []

    return Preparation([Registered(Timed(), "benchmark", ORIGIN)], end_task)


class Kept:
    """An executor that several runs use one after the other."""

    def __init__(self, inner: Executor) -> None:
        self._inner, self.submit, self.reports = inner, inner.submit, inner.reports

    @property
    def idle(self) -> int:
        return self._inner.idle

    def close(self) -> None:
        pass


def lines() -> list[Line]:
    """Return what short tasks and naps take on clusters that are started for it."""
    rate, first = _measured(CORES, SHORT, 0.0)
    naps, _ = _measured(SLOTS, NAPS, NAP_S)
    share = naps * NAP_S / SLOTS
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
    """Return tasks a second once all workers have computed one, and the time until the first result, s."""
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
        try:
            note = lambda ended, running: first.append(time.perf_counter() - start) if ended.done else None  # noqa: E731
            while len(list(worked.iterdir())) < slots:
                execute([_graph(3 * slots, NAP_S, len(first))], store, lambda: Kept(executor), watch=note)
            graph, begun = _graph(tasks, seconds, -1), time.perf_counter()
            execute([graph], store, lambda: Kept(executor))
            return tasks / (time.perf_counter() - begun), first[0]
        finally:
            executor.close()
            ray.shutdown()


def _graph(tasks: int, seconds: float, seed: int) -> Graph:
    registry = installed().joined([Registered(Timed(tasks=tasks, seconds=seconds), "benchmark", ORIGIN)])
    profile = Profile(name="timed", description="", tracks={"benchmark/timed": TrackProfile(select={})})
    return plan_track("benchmark/timed", profile, registry, seed=seed)
