"""How evenly a run spreads over workers, simulated with the times that the tasks of a finished store took.

The store is that of ``HARNESS_STORE``, or ``store`` in this folder; without one nothing is measured. Tasks start in the
order of `imharness.running.schedule.order`, once with learnt times (means of like tasks) and once with none. An ideal
run takes the sum of all times divided by the number of workers. A run whose tasks take a hundred times as long, as on a
larger data set, is simulated with long tasks whole and in shards.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
"""How much longer than an ideal run a real one may be."""
LARGER, CLUSTERS = 100, (64, 128)
"""How many times longer the tasks of a larger run take, and its workers."""
PREPARED_S = 2.0
"""What a worker needs for a shard beyond its part of the task: components and data sets, s."""
STUDY, MANY = 1_000_000, 1000
"""Tasks and workers of the large study."""
MTBF_S, RESTART_S = 12 * 3600.0, 120.0
"""How long a worker of it lasts in the mean, and how long it is away then."""


@dataclass
class Simulated:
    """How long a run took, and how much of the workers' time was lost to workers that died, s."""

    wall_s: float
    lost_s: float
    deaths: int


def simulate(
    needs: Sequence[Sequence[int]],
    seconds: Sequence[float],
    numbers: Sequence[float],
    workers: int,
    *,
    mtbf_s: float = float("inf"),
    seed: int = 0,
) -> Simulated:
    """Run tasks, named by their positions, on workers that die at random; what such a one computed is done again."""
    rng = np.random.default_rng(seed)
    after, missing = [list[int]() for _ in needs], [len(requirements) for requirements in needs]
    for task, task_needs in enumerate(needs):
        for need in task_needs:
            after[need].append(task)
    ready = [(numbers[task], task) for task, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    events, idle, now, outcome = list[tuple[float, int, bool]](), workers, 0.0, Simulated(0.0, 0.0, 0)
    while ready or events:
        while ready and idle:
            _, task = heapq.heappop(ready)
            idle -= 1
            lives = float(rng.exponential(mtbf_s)) if np.isfinite(mtbf_s) else float("inf")
            heapq.heappush(events, (now + min(lives, seconds[task]), task, lives >= seconds[task]))
            outcome.lost_s += lives if lives < seconds[task] else 0.0
        if not events:
            break
        now, task, done = heapq.heappop(events)
        if task < 0:
            idle += 1
        elif done:
            idle += 1
            outcome.wall_s = now
            for other in after[task]:
                missing[other] -= 1
                if not missing[other]:
                    heapq.heappush(ready, (numbers[other], other))
        else:
            outcome.deaths += 1
            heapq.heappush(ready, (numbers[task], task))
            heapq.heappush(events, (now + RESTART_S, -1, False))
    return outcome


def recorded(store: Store) -> tuple[dict[str, Task], dict[str, float], Times]:
    """Return the tasks that the configurations of a store hold, what each took, and what is learnt of that."""
    keys = dict.fromkeys(key for track in store.tracks() for key in store.keys_of(store.sweeps(track)[-1]))
    records = [record for key in keys if (record := store.record(key)) is not None and record.status == "done"]
    times = Times(records[0].device if records else "")
    for record in records:
        times.learn(record)
    waiting = {record.key: Task(record.key, record.key, record.spec) for record in records}
    tasks: dict[str, Task] = {}
    while waiting:  # every task behind those it needs
        free = [key for key, task in waiting.items() if not waiting.keys() & set(task.spec.needs.values())]
        tasks |= {key: waiting.pop(key) for key in free}
    return tasks, {record.key: record.seconds for record in records}, times


def lines() -> list[Line]:
    """Return the makespans of the recorded run on several numbers of workers, and what a large study would lose."""
    store = Store(Path(os.environ.get("HARNESS_STORE", "store")))
    tasks, took, times = recorded(store)
    return [*_spread(tasks, took, times), *_larger(tasks, took), *_study(tasks, took)] if tasks else []


def _spread(tasks: Mapping[str, Task], took: Mapping[str, float], times: Times) -> Iterator[Line]:
    places = {key: position for position, key in enumerate(tasks)}
    needs = [[places[need] for need in task.spec.needs.values() if need in places] for task in tasks.values()]
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
    longer = {key: LARGER * seconds for key, seconds in took.items()}
    total_s, tracks = sum(longer.values()), {task.spec.track for task in tasks.values()}
    shared = {(track, step.name) for track in tracks for step in installed().track(track).steps if step.shared}
    for workers in CLUSTERS:
        pieces = {
            key: number_of_shards(longer[key], total_s / workers) if (task.spec.track, task.spec.step) in shared else 1
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
    """Simulate a run in which a task is computed in so many pieces, and joined where there are several."""
    needs, lasts, ends, first = list[list[int]](), list[float](), dict[str, int](), chains(tasks, seconds)
    numbers = list[float]()
    for key, task in tasks.items():
        before = [ends[need] for need in task.spec.needs.values() if need in ends]
        shards = range(len(needs), len(needs) + pieces[key]) if pieces[key] > 1 else range(0)
        needs += [before] * len(shards) + [list(shards) or before]
        lasts += [seconds[key] / pieces[key] + PREPARED_S] * len(shards) + [PREPARED_S if shards else seconds[key]]
        numbers += [-first[key]] * (len(shards) + 1)
        ends[key] = len(needs) - 1
    return simulate(needs, lasts, numbers, workers)


def _too_long(tasks: Mapping[str, Task], took: Mapping[str, float], ideal: float) -> str:
    """Return which chains of tasks alone take longer than the run may, to be split; empty where none does."""
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
    copies = -(-STUDY // len(tasks))
    places = {key: position for position, key in enumerate(tasks)}
    dependencies = [[places[need] for need in task.spec.needs.values() if need in places] for task in tasks.values()]
    needs = [
        [need + copy * len(dependencies) for need in indices] for copy in range(copies) for indices in dependencies
    ]
    longest = chains(tasks, took)
    numbers = [-longest[key] for key in tasks] * copies
    seconds = [LARGER * took[key] for key in tasks] * copies
    simulated = simulate(needs, seconds, numbers, MANY, mtbf_s=MTBF_S)
    used, total_s = sum(seconds) / (simulated.wall_s * MANY), sum(seconds)
    lost = f"{100 * simulated.lost_s / total_s:.2f}% computed twice after {simulated.deaths:,} deaths"
    what = f"{len(seconds):,} tasks that take {LARGER} times as long, {MANY:,} workers that last {MTBF_S / 3600:g} h"
    text = f"{100 * used:.1f}% of the workers' time used, {lost}, {duration(simulated.wall_s)}"
    yield Line(what, text, "at least 85%", used >= 0.85)
