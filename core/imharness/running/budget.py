"""Keeps a run within a budget of time by leaving out tasks; every entry gets a few cells first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from imharness.planning.plan import Graph, Task
from imharness.results.store import Store
from imharness.results.sweeps import LEFT_OUT, Missing
from imharness.running.schedule.cost import read_budget, within_budget
from imharness.running.schedule.order import expected
from imharness.running.schedule.times import Times
from imharness.running.sweep import RunResult, finished_before


def keep_to_budget(
    graphs: Sequence[Graph], store: Store, times: Times, first: Mapping[str, Collection[str]], budget: str, *,
    fresh: bool,
) -> None:  # fmt: skip
    """Remove tasks that do not fit into a budget from the graphs; the tables then say that they were left out.

    Tasks that have a result cost nothing. If no times of similar tasks are known, every task counts as one second.
    """
    seconds_left, tasks = read_budget(budget), {key: task for graph in graphs for key, task in graph.tasks.items()}
    done = set[str]() if fresh else finished(store, tasks)
    waiting = {key: task for key, task in tasks.items() if key not in done}
    wanted = set[str]().union(*first.values())
    kept = done | within_budget(waiting, expected(waiting, times), seconds_left, wanted)
    for graph in graphs:
        out = [task for key, task in graph.tasks.items() if key not in kept]
        counts = Counter(task.spec.step for task in out)
        for task in out:
            what = f"{counts[task.spec.step]:,} of {graph.by_step()[task.spec.step]:,} cells of {task.spec.step}"
            graph.missing[task.address] = Missing(what=what, reason=f"{LEFT_OUT} {budget}", remedy="a larger --budget")
        graph.tasks = {key: task for key, task in graph.tasks.items() if key in kept}


def finished(store: Store, tasks: Mapping[str, Task]) -> set[str]:
    """Return the keys of tasks that have a result."""
    before = RunResult()
    finished_before(store, tasks, before)
    return before.done
