"""Run graphs of tasks to the end: skip what is done, order by needs, survive whatever a cell does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from imharness.errors import StoreError, StoreUnreachable
from imharness.planning.plan import Graph, Task
from imharness.results.store import Store
from imharness.running.executor import Executor

POLL_S = 0.25


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
        except StoreUnreachable:
            raise
        except StoreError as error:
            outcome.warnings.append(str(error))
            store.forget(key)
            continue
        if record is not None and record.status == "done":
            outcome.done.add(key)
    outcome.reused = len(outcome.done)


def execute(
    graphs: Sequence[Graph], store: Store, start: Callable[[], Executor], *, fresh: bool = False,
    advance: Callable[[int, int], None] = lambda finished, total: None,
) -> RunResult:  # fmt: skip
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
        _drain(waiting, outcome, executor, lambda: advance(len(outcome.done) + len(outcome.failed), len(tasks)))
    finally:
        executor.close()
    return outcome


def _drain(tasks: Mapping[str, Task], outcome: RunResult, executor: Executor, advance: Callable[[], None]) -> None:
    order = TopologicalSorter({key: tasks.keys() & task.spec.needs.values() for key, task in tasks.items()})
    order.prepare()
    ready, running, retried = deque(order.get_ready()), set[str](), set[str]()
    while ready or running:
        while ready and executor.idle:
            key = ready.popleft()
            executor.submit(key, tasks[key].spec)
            running.add(key)
        for result in executor.reports(POLL_S):
            running.discard(result.key)
            if result.status == "store":
                raise StoreError(result.line)
            if result.status == "done":
                outcome.done.add(result.key)
                order.done(result.key)
                ready.extend(order.get_ready())
            elif result.status == "died" and result.key not in retried:
                retried.add(result.key)
                ready.appendleft(result.key)
            else:
                outcome.failed[result.key] = result.line
            advance()
    for key, task in tasks.items():  # every task stands behind those it needs
        broken = next((need for need in task.spec.needs.values() if need in outcome.failed), None)
        if broken is not None:
            outcome.failed[key] = f"needs a task that failed ({outcome.failed[broken]})"
    advance()
