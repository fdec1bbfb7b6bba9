"""How evenly a run spreads over workers, simulated with the times that the tasks of a finished store took.

The store is that of ``HARNESS_STORE``, or ``store`` in this folder; without one nothing is measured. An ideal run takes
the sum of all times divided by the number of workers. Three runs are simulated:

- the run of the store; tasks start in the order of `imharness.running.schedule.order`, once with learnt times (means of
  like tasks) and once with none;
- a run whose tasks take a hundred times as long, as on a larger data set, with long tasks whole and in shards;
- a study of a million tasks on a thousand workers, which fail at random.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from benchmarks.timing import Line
from imharness.cli.progress import duration
from imharness.components.registry import installed
from imharness.planning.plan import Task
from imharness.results.store import Store
from imharness.running.schedule.estimates import Times
from imharness.running.schedule.order import chains, expected, priorities
from imharness.running.schedule.sharding import number_of_shards

WORKERS = (2, 4, 8, 16)
ABOVE = 1.15
"""How many times as long as an ideal run a real one may take."""
LARGER, CLUSTERS = 100, (64, 128)
"""How many times as long the tasks of a larger run take, and its numbers of workers."""
PREPARED_S = 2.0
"""The time that a worker needs to load components and data sets before it computes a shard, s."""
STUDY, MANY = 1_000_000, 1000
"""Tasks and workers of the large study."""
MTBF_S, RESTART_S = 12 * 3600.0, 120.0
"""In the large study: the mean time until a worker fails, and the time until it has started again, s."""


@dataclass
class Simulated:
    """What a simulated run took.

    Attributes:
        wall_s: the duration of the run, s.
        lost_s: the time that workers had spent on tasks when they failed, s, in sum.
        failures: how often a worker failed.
    """

    wall_s: float = 0.0
    lost_s: float = 0.0
    failures: int = 0


class _Event(NamedTuple):
    """What happens at a time: a task ends, a worker fails during a task, or (`kind` "restart") a worker is back.

    `task` is the position of the task; it only breaks ties for a restart, which comes first.
    """

    time: float
    task: int
    kind: Literal["done", "failure", "restart"]


def simulate(
    needs: Sequence[Sequence[int]],
    seconds: Sequence[float],
    numbers: Sequence[float],
    workers: int,
    *,
    mtbf_s: float = float("inf"),
    seed: int = 0,
) -> Simulated:
    """Simulate a run of tasks on workers that fail at random; a task whose worker failed is computed again.

    Args:
        needs: for each task, the positions of the tasks that it needs.
        seconds: for each task, how long it takes, s.
        numbers: for each task, its number in the order; of the ready tasks, the one with the least number starts first.
        workers: the number of workers.
        mtbf_s: the mean time until a worker fails, s; infinity means never.
        seed: the seed of the times at which workers fail.
    """
    rng = np.random.default_rng(seed)
    needed_by = [list[int]() for _ in needs]
    missing = [len(task_needs) for task_needs in needs]  # how many needs of each task are not done yet
    for task, task_needs in enumerate(needs):
        for need in task_needs:
            needed_by[need].append(task)
    ready = [(numbers[task], task) for task, count in enumerate(missing) if not count]  # a heap
    heapq.heapify(ready)
    events, idle, now, outcome = list[_Event](), workers, 0.0, Simulated()  # `events` is a heap, too
    while ready or events:
        while ready and idle:
            _, task = heapq.heappop(ready)
            idle -= 1
            lifetime = float(rng.exponential(mtbf_s)) if np.isfinite(mtbf_s) else float("inf")
            if lifetime < seconds[task]:
                heapq.heappush(events, _Event(now + lifetime, task, "failure"))
                outcome.lost_s += lifetime
            else:
                heapq.heappush(events, _Event(now + seconds[task], task, "done"))
        if not events:
            break
        now, task, kind = heapq.heappop(events)
        if kind == "restart":
            idle += 1
        elif kind == "done":
            idle += 1
            outcome.wall_s = now
            for dependent in needed_by[task]:
                missing[dependent] -= 1
                if not missing[dependent]:
                    heapq.heappush(ready, (numbers[dependent], dependent))
        else:
            outcome.failures += 1
            heapq.heappush(ready, (numbers[task], task))
            heapq.heappush(events, _Event(now + RESTART_S, -1, "restart"))
    return outcome


def recorded(store: Store) -> tuple[dict[str, Task], dict[str, float], Times]:
    """Return the finished tasks of the newest run of each track in a store, the seconds of each, and learnt times.

    Every task comes after those that it needs.
    """
    keys = dict.fromkeys(key for track in store.tracks() for key in store.keys_of(store.sweeps(track)[-1]))
    records = [record for key in keys if (record := store.record(key)) is not None and record.status == "done"]
    times = Times(records[0].device if records else "")
    for record in records:
        times.learn(record)
    waiting = {record.key: Task(record.key, record.key, record.spec) for record in records}
    tasks: dict[str, Task] = {}
    while waiting:
        free = [key for key, task in waiting.items() if not waiting.keys() & set(task.spec.needs.values())]
        tasks |= {key: waiting.pop(key) for key in free}
    return tasks, {record.key: record.seconds for record in records}, times


def lines() -> list[Line]:
    """Return the makespans of the recorded run on several numbers of workers, and what a large study would lose."""
    store = Store(Path(os.environ.get("HARNESS_STORE", "store")))
    tasks, took, times = recorded(store)
    return [*_spread(tasks, took, times), *_larger(tasks, took), *_study(tasks, took)] if tasks else []


def _spread(tasks: Mapping[str, Task], took: Mapping[str, float], times: Times) -> Iterator[Line]:
    """Yield a line for each number of workers, first for tasks ordered by learnt times, then without any times."""
    positions = {key: position for position, key in enumerate(tasks)}
    needs = [[positions[need] for need in task.spec.needs.values() if need in positions] for task in tasks.values()]
    seconds, total_s = [took[key] for key in tasks], sum(took[key] for key in tasks)
    for name, learnt in (("learnt times", times), ("no times", Times(times.device))):
        numbers = priorities(tasks, expected(tasks, learnt), [])
        for workers in WORKERS:
            simulated = simulate(needs, seconds, [numbers[key] for key in tasks], workers)
            ratio = simulated.wall_s * workers / total_s
            text = f"{ratio:.3f} of ideal: {duration(simulated.wall_s)} instead of {duration(total_s / workers)}"
            what = f"{len(tasks):,} tasks, {workers} workers, {name}"
            long = _too_long(tasks, took, total_s / workers)
            yield Line(what, text + long, f"at most {ABOVE:g}", ratio <= ABOVE)


def _larger(tasks: Mapping[str, Task], took: Mapping[str, float]) -> Iterator[Line]:
    """Yield a line for the run of longer tasks, for each number of workers."""
    longer = {key: LARGER * seconds for key, seconds in took.items()}
    total_s, tracks = sum(longer.values()), {task.spec.track for task in tasks.values()}
    divisible = {(track, step.name) for track in tracks for step in installed().track(track).steps if step.shared}
    for workers in CLUSTERS:
        pieces = {
            key: number_of_shards(longer[key], total_s / workers)
            if (task.spec.track, task.spec.step) in divisible
            else 1
            for key, task in tasks.items()
        }
        walls = [_simulated(tasks, longer, shards, workers).wall_s for shards in (dict.fromkeys(tasks, 1), pieces)]
        whole, cut = (wall * workers / total_s for wall in walls)
        what = f"{len(tasks):,} tasks that take {LARGER} times as long, {workers:,} workers"
        many = [number for number in pieces.values() if number > 1]
        text = f"{cut:.3f} of ideal with {len(many):,} tasks in {sum(many):,} shards, {whole:.3f} with whole tasks"
        yield Line(what, text, f"at most {ABOVE:g}", cut <= ABOVE)


def _simulated(
    tasks: Mapping[str, Task], seconds: Mapping[str, float], pieces: Mapping[str, int], workers: int
) -> Simulated:
    """Simulate a run in which tasks are computed in shards; `pieces` is the number of shards of each task.

    A task in one piece is one job. A task in several is a job for each shard, and one that joins their results.
    """
    needs, durations, numbers = list[list[int]](), list[float](), list[float]()  # of each job
    last_job: dict[str, int] = {}  # key of a task -> the position of the job that ends it
    longest = chains(tasks, seconds)
    for key, task in tasks.items():
        before = [last_job[need] for need in task.spec.needs.values() if need in last_job]
        if pieces[key] > 1:
            first_shard = len(needs)
            needs += [before] * pieces[key]
            durations += [seconds[key] / pieces[key] + PREPARED_S] * pieces[key]
            needs.append(list(range(first_shard, first_shard + pieces[key])))
            durations.append(PREPARED_S)
        else:
            needs.append(before)
            durations.append(seconds[key])
        numbers += [-longest[key]] * (len(needs) - len(numbers))
        last_job[key] = len(needs) - 1
    return simulate(needs, durations, numbers, workers)


def _too_long(tasks: Mapping[str, Task], took: Mapping[str, float], ideal: float) -> str:
    """Return a text that counts, by step, the chains of tasks that alone take longer than the whole run may.

    In a chain, each task needs the one before it. The text is "" if there is no such chain.
    """
    longest = chains(tasks, took)
    starts = [
        key
        for key, task in tasks.items()
        if longest[key] > ideal * ABOVE and not tasks.keys() & set(task.spec.needs.values())
    ]
    if not starts:
        return ""
    names = Counter(tasks[key].spec.step for key in starts)
    return "; too long: " + ", ".join(f"{count} x {name}" for name, count in names.most_common(5))


def _study(tasks: Mapping[str, Task], took: Mapping[str, float]) -> Iterator[Line]:
    """Yield a line for the large study, which has copies of the store's tasks."""
    copies = -(-STUDY // len(tasks))
    positions = {key: position for position, key in enumerate(tasks)}
    dependencies = [
        [positions[need] for need in task.spec.needs.values() if need in positions] for task in tasks.values()
    ]
    needs = [
        [need + copy * len(dependencies) for need in indices] for copy in range(copies) for indices in dependencies
    ]
    longest = chains(tasks, took)
    numbers = [-longest[key] for key in tasks] * copies
    seconds = [LARGER * took[key] for key in tasks] * copies
    simulated = simulate(needs, seconds, numbers, MANY, mtbf_s=MTBF_S)
    used, total_s = sum(seconds) / (simulated.wall_s * MANY), sum(seconds)
    lost = f"{100 * simulated.lost_s / total_s:.2f}% computed twice after {simulated.failures:,} failures of workers"
    what = f"{len(seconds):,} tasks that take {LARGER} times as long, {MANY:,} workers that last {MTBF_S / 3600:g} h"
    text = f"{100 * used:.1f}% of the workers' time used, {lost}, {duration(simulated.wall_s)}"
    yield Line(what, text, "at least 85%", used >= 0.85)
