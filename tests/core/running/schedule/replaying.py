"""Recorded runs, replayed by simulated workers in the order that the scheduler gives them.

A recording has the tasks of a run in the order of the plan: step, components, the tasks that it needs, seconds by its
record, and when it reported which share of it was computed. `python -m tests.core.running.schedule.replaying PROFILE
FILE` runs a profile and records it.
"""

import heapq
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from imharness.planning.plan import Task
from imharness.results.identity import ComponentRef
from imharness.results.tasks import TaskSpec
from imharness.running.schedule.estimates import Estimate, Running, Times, step_of
from imharness.running.schedule.order import expected, priorities, samples

FOLDER = Path(__file__).parent / "recorded"
BESIDE_S = 0.03
"""Seconds that a task takes a worker beyond those in its record."""


@dataclass(frozen=True)
class Recording:
    """Tasks in the order of the plan, the seconds that each took, and the tasks of each first table.

    `shares`: key -> the seconds after which a task reported a share, and the share; an old recording has none.
    """

    tasks: Mapping[str, Task]
    seconds: Mapping[str, float]
    shares: Mapping[str, list[tuple[float, float]]]
    first: tuple[frozenset[str], ...]

    def of(self, track: str) -> "Recording":
        """Return the part of a track, which is what a run of this track alone would be."""
        own_tasks = {key: task for key, task in self.tasks.items() if task.spec.track == track}
        return replace(
            self, tasks=own_tasks, first=tuple(subset for keys in self.first if (subset := keys & own_tasks.keys()))
        )


@cache
def recording(name: str) -> Recording:
    """Return a recorded run; callers must not change it."""
    content = json.loads((FOLDER / f"{name}.json").read_text())
    tasks, seconds, refs = dict[str, Task](), dict[str, float](), [_ref(label) for label in content["labels"]]
    marks = dict[str, list[tuple[float, float]]]()
    for number, (step, indices, needs, took, *shares) in enumerate(content["tasks"]):
        track, _, step_name = content["steps"][step].partition(" ")
        spec = TaskSpec.model_construct(
            track=track,
            step=step_name,
            version="1",
            components={f"c{i}": refs[index] for i, index in enumerate(indices)},
            options={},
            limit=None,
            seed=0,
            needs={str(need): f"{need}" for need in needs},
        )
        tasks[f"{number}"], seconds[f"{number}"] = Task(f"{number}", step_name, spec), took
        marks[f"{number}"] = [(after, share) for task_marks in shares for after, share in task_marks]
    return Recording(tasks, seconds, marks, tuple(frozenset(map(str, keys)) for keys in content["first"]))


def _ref(label: str) -> ComponentRef:
    kind, _, name = label.partition(" ")
    return ComponentRef(kind=kind, id=name.partition("[")[0], version="1", label=name, parameters={})


@dataclass(frozen=True)
class Point:
    """The estimate `said_s` at a time of a run, None where there was none, and the seconds that were really left.

    `at_least`: the estimate was only a lower bound.
    """

    at_s: float
    left_s: float
    said_s: float | None
    at_least: bool

    def right(self, factor: float, beside_s: float) -> bool:
        """Return whether the estimate is near the truth, by a factor or `beside_s`; a lower bound may be far below."""
        if self.said_s is None:
            return False
        low, high = self.left_s / factor - beside_s, self.left_s * factor + beside_s
        return self.said_s <= high and (self.at_least or self.said_s >= low)


def replay(run: Recording, workers: int, times: Times, looks: int = 100) -> list[Point]:
    """Return the estimates of a simulated run at `looks - 1` times that are equally far from each other."""
    numbers = priorities(
        run.tasks, expected(run.tasks, times), run.first, samples(run.tasks, times, frozenset().union(*run.first))
    )
    whole = list(_simulated(run, workers, numbers))
    wall = max(end for _, _, end in whole)
    estimate, running, points = Estimate(times), dict[str, tuple[float, float]](), list[Point]()
    ends = list[float]()
    estimate.expect(run.tasks.values())
    at = [wall * look / looks for look in range(1, looks)]
    for key, start, end in whole:
        while at and at[0] < start:
            points.append(_look(run, estimate, times, running, at.pop(0), wall))
        running[key] = start, end
        heapq.heappush(ends, end)
        while ends[0] <= start:
            heapq.heappop(ends)
        estimate.busy(len(ends))
    while at:
        points.append(_look(run, estimate, times, running, at.pop(0), wall))
    return points


def _look(
    run: Recording, estimate: Estimate, times: Times, running: dict[str, tuple[float, float]], now: float, wall: float
) -> Point:
    """Tell the estimate of all tasks that ended by `now`; return what it says then."""
    for key in sorted(
        (task_key for task_key in running if running[task_key][1] <= now),
        key=lambda finished_key: running[finished_key][1],
    ):
        start, end = running.pop(key)
        times.add(run.tasks[key].spec, end - start)
        estimate.ended(run.tasks[key].spec)
    estimated = estimate.remaining([_running(run, key, start, now) for key, (start, _) in running.items()])
    return Point(now, wall - now, *(estimated or (None, False)))


def _running(run: Recording, key: str, start: float, now: float) -> Running:
    shares = [share for after, share in run.shares[key] if start + after <= now]
    return Running(step_of(run.tasks[key].spec), now - start, shares[-1] if shares else 0.0)


def _simulated(run: Recording, workers: int, numbers: Mapping[str, float]) -> Iterator[tuple[str, float, float]]:
    """Yield tasks in the order of their starts, each with its start and end."""
    after = {key: list[str]() for key in run.tasks}
    missing = {key: run.tasks.keys() & task.spec.needs.values() for key, task in run.tasks.items()}
    for key, needs in missing.items():
        for need in needs:
            after[need].append(key)
    places = {key: (numbers[key], position, key) for position, key in enumerate(run.tasks)}
    ready = sorted(places[key] for key, needs in missing.items() if not needs)
    ends, now = list[tuple[float, str]](), 0.0
    while ready or ends:
        while ready and len(ends) < workers:
            key = heapq.heappop(ready)[-1]
            end = now + run.seconds[key] + BESIDE_S
            heapq.heappush(ends, (end, key))
            yield key, now, end
        now, key = heapq.heappop(ends)
        for other in after[key]:
            missing[other].discard(key)
            if not missing[other]:
                heapq.heappush(ready, places[other])


def main(name: str, file: str, *tracks: str) -> None:
    """Run tracks of a profile, all where none is named, with two workers and a new store, and record them."""
    from imharness.components.registry import installed
    from imharness.planning.plan import plan_track
    from imharness.planning.profiles import load_profile
    from imharness.results.store import Store
    from imharness.running.executor import open_executor
    from imharness.running.sweep import RunResult, execute
    from imharness.running.watching import first_sets

    profile = load_profile(name)
    graphs = [plan_track(track, profile, installed()) for track in tracks or profile.tracks]
    tasks = {key: task for graph in graphs for key, task in graph.tasks.items()}
    sets, marks = first_sets(graphs, profile), dict[str, list[tuple[float, float]]]()

    def order(waiting: Mapping[str, Task]) -> dict[str, float]:
        then = samples(waiting, Times("cpu"), set[str]().union(*sets.values()))
        return priorities(waiting, expected(waiting, Times("cpu")), list(sets.values()), then)

    def watch(outcome: RunResult, running: Mapping[str, float]) -> None:
        for key, share in outcome.shares.items():
            task_marks = marks.setdefault(key, [])
            if key in running and share not in {before for _, before in task_marks}:
                task_marks.append((round(time.monotonic() - running[key], 2), round(share, 4)))

    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        start = partial(open_executor, folder, devices=["cpu"], workers=2, batch_size=profile.batch_size)
        execute(graphs, store, start, order=order, watch=watch)
        places, steps, labels = {key: index for index, key in enumerate(tasks)}, dict[str, int](), dict[str, int]()
        rows = list[object]()
        for key, task in tasks.items():
            record = store.record(key)
            assert record is not None, f"{task.address} has not been computed"
            label_indices = [
                labels.setdefault(f"{ref.kind} {ref.label}", len(labels)) for ref in task.spec.named().values()
            ]
            step = steps.setdefault(f"{task.spec.track} {task.spec.step}", len(steps))
            needs = [places[need] for need in task.spec.needs.values()]
            rows.append([step, label_indices, needs, round(record.seconds, 3), marks.get(key, [])])
    first = [sorted(places[key] for key in keys) for keys in sets.values()]
    facts = {"steps": list(steps), "labels": list(labels), "first": first, "tasks": rows}
    Path(file).write_text(json.dumps(facts, separators=(",", ":")))


if __name__ == "__main__":
    main(*sys.argv[1:])
