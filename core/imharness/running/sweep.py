"""Run graphs of tasks to the end: skip what is done, order by needs, survive whatever a cell does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from imharness.errors import StoreError
from imharness.planning.plan import Graph, Task
from imharness.results.records import TaskSpec
from imharness.results.store import Store
from imharness.running.local import TaskResult

POLL_S = 0.25


class Executor(Protocol):
    """Where tasks are computed."""

    @property
    def idle(self) -> int:
        """How many tasks can be submitted now."""

    def submit(self, key: str, spec: TaskSpec) -> None:
        """Start a task."""

    def reports(self, seconds: float) -> Iterable[TaskResult]:
        """Yield what became of tasks, waiting at most `seconds`."""

    def close(self) -> None:
        """End what still runs."""


@dataclass
class RunResult:
    """What became of the tasks of a run: keys that are done, and a line for each that failed."""

    done: set[str] = field(default_factory=set)
    reused: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def finished_before(store: Store, tasks: Mapping[str, Task], outcome: RunResult) -> None:
    """Note which tasks already have a result; a damaged one is named and will be computed again."""
    for key in tasks:
        try:
            record = store.record(key)
        except StoreError as error:
            outcome.warnings.append(str(error))
            store.forget(key)
            continue
        if record is not None and record.status == "done":
            outcome.done.add(key)
    outcome.reused = len(outcome.done)


def execute(
    graphs: Sequence[Graph],
    store: Store,
    start: Callable[[], Executor],
    *,
    fresh: bool = False,
    advance: Callable[[int, int], None] = lambda finished, total: None,
) -> RunResult:
    """Compute every task of the graphs that has no result yet. What is finished stays, whatever happens after it."""
    tasks = {key: task for graph in graphs for key, task in graph.tasks.items()}
    outcome = RunResult()
    if not fresh:
        finished_before(store, tasks, outcome)
    waiting = {key: task for key, task in tasks.items() if key not in outcome.done}
    advance(len(outcome.done), len(tasks))
    if not waiting:
        return outcome
    executor = start()
    try:
        _drain(_Queue(waiting, outcome), executor, lambda: advance(len(outcome.done) + len(outcome.failed), len(tasks)))
    finally:
        executor.close()
    return outcome


class _Queue:
    """Tasks that wait for those they need; plan order among those that are ready."""

    def __init__(self, tasks: Mapping[str, Task], outcome: RunResult) -> None:
        self.tasks, self.outcome = tasks, outcome
        self._open = {key: {n for n in task.spec.needs.values() if n in tasks} for key, task in tasks.items()}
        self._dependents: dict[str, list[str]] = {}
        for key, needs in self._open.items():
            for need in needs:
                self._dependents.setdefault(need, []).append(key)
        self.ready = deque(key for key, needs in self._open.items() if not needs)
        self.retried: set[str] = set()

    def finish(self, key: str) -> None:
        """Note a result and free the tasks that waited for it."""
        self.outcome.done.add(key)
        for dependent in self._dependents.get(key, ()):
            self._open[dependent].discard(key)
            if not self._open[dependent] and dependent not in self.outcome.failed:
                self.ready.append(dependent)

    def fail(self, key: str, line: str) -> None:
        """Note a failure; tasks that need the result fail with it and say so."""
        self.outcome.failed[key] = line
        for dependent in self._dependents.get(key, ()):
            if dependent not in self.outcome.failed:
                self.fail(dependent, f"needs a task that failed ({line})")


def _drain(queue: _Queue, executor: Executor, advance: Callable[[], None]) -> None:
    running: set[str] = set()
    while queue.ready or running:
        while queue.ready and executor.idle:
            key = queue.ready.popleft()
            executor.submit(key, queue.tasks[key].spec)
            running.add(key)
        for key, status, line in executor.reports(POLL_S):
            running.discard(key)
            if status == "store":
                raise StoreError(line)
            if status == "done":
                queue.finish(key)
            elif status == "died" and key not in queue.retried:
                queue.retried.add(key)
                queue.ready.appendleft(key)
            else:
                queue.fail(key, line)
            advance()
