"""Runs graphs of tasks to the end: skips finished tasks, orders tasks by needs, and survives whatever a task does."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from imharness.errors import StoreError
from imharness.planning.plan import Graph, Task
from imharness.results.store import Store
from imharness.results.sweeps import NEEDS
from imharness.running.executor import Executor, idle_for
from imharness.running.merging import damaged_sweeps

POLL_S = 0.25


@dataclass
class RunResult:
    """What happened to the tasks of a run: the keys that are done, and a line for each that failed.

    `shares`: the share of a running task that is computed, in (0, 1], where its worker has told it.
    """

    done: set[str] = field(default_factory=set)
    reused: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


Order = Callable[[Mapping[str, Task]], Mapping[str, float]]
"""Tasks to run -> key -> priority; the smallest starts first, of equal ones the one that was planned first."""
Watch = Callable[[RunResult, Mapping[str, float]], None]
"""Called after each change and several times a second, with the start of each running task (monotonic seconds).

The start is infinite if no worker has begun the task yet.
"""


def finished_before(
    store: Store, tasks: Mapping[str, Task], outcome: RunResult, verified: Set[str] = frozenset()
) -> None:
    """Note in `outcome` which tasks already have a result; damaged ones get a warning and will be computed again."""
    if others := tasks.keys() - verified:
        outcome.done, outcome.warnings = store.finished(others)
    outcome.done |= tasks.keys() & verified
    outcome.reused = len(outcome.done)


def execute(
    graphs: Sequence[Graph],
    store: Store,
    start: Callable[[], Executor],
    *,
    fresh: bool = False,
    verified: Set[str] = frozenset(),
    order: Order = lambda tasks: {},
    watch: Watch = lambda outcome, running: None,
) -> RunResult:
    """Compute every task of the graphs that has no result yet; finished tasks stay, whatever happens later.

    `verified`: keys of tasks whose results were verified a moment ago.
    """
    tasks = {key: task for graph in graphs for key, task in graph.tasks.items()}
    outcome, lines = RunResult(), list(damaged_sweeps(store, graphs))
    if not fresh:
        finished_before(store, tasks, outcome, verified)
    outcome.warnings += lines
    waiting = {key: task for key, task in tasks.items() if key not in outcome.done}
    watch(outcome, {})
    if not waiting:
        return outcome
    executor = start()
    try:
        _drain(waiting, order(waiting), outcome, executor, watch)
    finally:
        executor.close()
    return outcome


def _drain(
    tasks: Mapping[str, Task], priorities: Mapping[str, float], outcome: RunResult, executor: Executor, watch: Watch
) -> None:
    """Compute all tasks; write into `outcome` what happened to each. A task whose worker dies is tried once more.

    Raises `StoreError` if a worker cannot use the store. A task that needs a failed one fails, too.
    """
    sort_key = {key: (priorities.get(key, 0.0), position, key) for position, key in enumerate(tasks)}
    needs = TopologicalSorter({key: tasks.keys() & task.spec.needs.values() for key, task in tasks.items()})
    needs.prepare()
    ready = defaultdict[str, list[tuple[float, int, str]]](list)  # track -> a heap of tasks that can start
    running = dict[str, float]()  # key -> start, in monotonic seconds; infinite while no worker has begun the task
    retried = set[str]()

    def add(key: str) -> None:
        heapq.heappush(ready[tasks[key].spec.track], sort_key[key])

    for key in needs.get_ready():
        add(key)
    while any(ready.values()) or running:
        while heaps := [heap for track, heap in ready.items() if heap and idle_for(executor, track)]:
            _, _, key = heapq.heappop(min(heaps))
            running[key] = time.monotonic()
            executor.submit(key, tasks[key].spec)
        now, not_begun = time.monotonic(), set(getattr(executor, "waiting", ()))
        running = {key: float("inf") if key in not_begun else min(since, now) for key, since in running.items()}
        outcome.shares = getattr(executor, "shares", {})
        watch(outcome, running)
        for result in executor.reports(POLL_S):
            running.pop(result.key, None)
            if result.status == "store":
                raise StoreError(result.line)
            if result.status == "done":
                outcome.done.add(result.key)
                needs.done(result.key)
                for key in needs.get_ready():
                    add(key)
            elif result.status == "died" and result.key not in retried:
                retried.add(result.key)
                add(result.key)
            else:
                outcome.failed[result.key] = result.line
    for key, task in tasks.items():  # every task comes after those that it needs
        failed_need = next((need for need in task.spec.needs.values() if need in outcome.failed), None)
        if failed_need is not None:
            outcome.failed[key] = f"{NEEDS}{outcome.failed[failed_need]})"
    watch(outcome, running)
