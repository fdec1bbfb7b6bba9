"""The overhead of the planner and the runner."""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.timing import Line
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.store import Store
from imharness.running.executor import Preparation, open_executor
from imharness.running.sweep import execute
from imharness.tracks import Info, Planner, Query, Selection, StepContext, StepResult, Track, TrackReport, step

TASKS = 500
TASK_BUDGET_MS = 5.0
PLAN_BUDGET_S = 30.0
RERUN_BUDGET_MS = 1.0


@step(version="1")
def empty(context: StepContext) -> StepResult:
    return StepResult(rows={"name": ["a"], "score": [float(context.options["number"])]})


class Empty(Track):
    """A track whose tasks do almost nothing."""

    info = Info(id="benchmark/empty", version="1")
    title = "Empty"
    measures = "Nothing."
    steps = (empty,)

    def plan(self, planner: Planner, selection: Selection) -> None:
        for number in range(TASKS):
            planner.task("empty", {}, options={"number": number})

    def report(self, query: Query) -> TrackReport:
        return TrackReport()


ENTRY = Registered(Empty(), "benchmark", Provenance("benchmark", "1"))


def prepare(facts: Mapping[str, Any]) -> Preparation:
    """Bring the track to a worker."""
    return Preparation([ENTRY])


def lines() -> list[Line]:
    """Return the time of planning, the overhead of a task, and the time of a run in which all tasks are done."""
    planned, seconds = _plan()
    overhead, again = _tasks()
    return [
        Line(
            f"planning {planned:,} tasks of the iqa track, CPU",
            f"{seconds:.1f} s",
            f"<= {PLAN_BUDGET_S:g} s",
            seconds <= PLAN_BUDGET_S and planned >= 100_000,
        ),
        Line(
            "runner and store, per task", f"{overhead:.2f} ms", f"<= {TASK_BUDGET_MS:g} ms", overhead <= TASK_BUDGET_MS
        ),
        Line(
            "second run with all tasks done, per task",
            f"{again:.2f} ms",
            f"<= {RERUN_BUDGET_MS:g} ms",
            again <= RERUN_BUDGET_MS,
        ),
    ]


def _plan() -> tuple[int, float]:
    select = {
        "dataset": ["harness/severity-ladder"],
        "metric": ["embedded-cnn", "embedded-residual"],
        "attack": [f"ifgsm[iterations={k}]" for k in range(1, 51)],
        "defense": [f"random-noise[sigma={k / 1000}]" for k in range(1, 113)],
    }
    profile = Profile(name="large", description="", tracks={"harness/iqa": TrackProfile(select=select)})
    registry = installed()
    start = time.process_time()
    graph = plan_track("harness/iqa", profile, registry)
    return len(graph.tasks), time.process_time() - start


def _tasks() -> tuple[float, float]:
    registry = installed().joined([ENTRY])
    profile = Profile(name="empty", description="", tracks={"benchmark/empty": TrackProfile(select={})})
    warm, graph = (plan_track("benchmark/empty", profile, registry, seed=seed) for seed in (1, 0))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        executor = open_executor(store.address, devices=["cpu"], workers=0, prepare=[(f"{__name__}:prepare", {})])
        times = []
        for graphs in ([warm], [graph], [graph]):
            start = time.perf_counter()
            execute(graphs, store, lambda: executor)
            times.append(1000 * (time.perf_counter() - start) / TASKS)
    return times[1], times[2]
