"""Keeps a run within a budget of time by leaving out tasks; every entry gets a few tasks first."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from imharness.errors import UsageError
from imharness.planning.plan import Graph, Task
from imharness.results.store import Store
from imharness.results.sweeps import LEFT_OUT, Missing
from imharness.running.schedule.estimates import Times
from imharness.running.schedule.order import expected, with_needs
from imharness.running.sweep import RunResult, finished_before

COMPARED = 32
"""How many of an entry's cheapest tasks of a step are compared for its first number."""
Step = tuple[str, str]
"""A track and one of its steps."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def keep_to_budget(
    graphs: Sequence[Graph],
    store: Store,
    times: Times,
    first: Mapping[str, Collection[str]],
    budget: str,
    *,
    fresh: bool,
) -> None:
    """Remove tasks that do not fit into a budget from the graphs; the tables then say that they were left out.

    Tasks that have a result cost nothing. A task of which no similar one was timed counts as the mean of the others, or
    as one second where none was.
    """
    seconds_left, tasks = read_budget(budget), {key: task for graph in graphs for key, task in graph.tasks.items()}
    done = set[str]() if fresh else finished(store, tasks)
    waiting = {key: task for key, task in tasks.items() if key not in done}
    wanted = set[str]().union(*first.values())
    selected = done | within_budget(waiting, expected(waiting, times), seconds_left, wanted)
    for graph in graphs:
        out = [task for key, task in graph.tasks.items() if key not in selected]
        counts = Counter(task.spec.step for task in out)
        for task in out:
            what = f"{counts[task.spec.step]:,} of {graph.by_step()[task.spec.step]:,} tasks of {task.spec.step}"
            graph.missing[task.address] = Missing(what=what, reason=f"{LEFT_OUT} {budget}", remedy="a larger --budget")
        graph.tasks = {key: task for key, task in graph.tasks.items() if key in selected}


def finished(store: Store, tasks: Mapping[str, Task]) -> set[str]:
    """Return the keys of tasks that have a result."""
    before = RunResult()
    finished_before(store, tasks, before)
    return before.done


def read_budget(text: str) -> float:
    """Return the seconds of a budget such as ``90m``, ``40h`` or ``2d``; raises `UsageError` for another text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if match is None or float(match[1]) == 0:
        raise UsageError(f"budget {text!r} is not a time such as 90m, 40h or 2d.")
    return float(match[1]) * UNITS[match[2]]


def within_budget(
    tasks: Mapping[str, Task], seconds: Mapping[str, float], budget_s: float, first: Collection[str] = ()
) -> set[str]:
    """Return the tasks that fit into so many seconds of one worker, with all that they depend on.

    First every entry gets a number: one task of each step that it takes part in; of a track with tasks in `first`, only
    of their steps. It is the one that adds least to the cost of what is chosen, of the `COMPARED` that cost least with
    all they need. Then come the tasks `first`, as far as they fit. Then every entry gets its next task, then every one
    the next: all have a first number before any gets a precise one. An entry is a component other than a data set; the
    tasks that count are those that no other needs.
    """
    needed, whole = {need for task in tasks.values() for need in task.spec.needs.values()}, dict[str, float]()
    for key, task in tasks.items():  # every task stands behind those it needs
        whole[key] = seconds[key] + sum(whole.get(need, 0.0) for need in task.spec.needs.values())
    steps = {_step(tasks[key]) for key in first if key in tasks}
    named = {track for track, _ in steps}
    requested, begun = defaultdict[str, list[str]](list), defaultdict[str, dict[Step, list[str]]](dict)
    ends = sorted(tasks.keys() - needed, key=lambda task_key: (whole[task_key], task_key))
    for key in ends:
        step = _step(tasks[key])
        for role, ref in tasks[key].spec.named().items():
            if role != "dataset":
                requested[ref.label].append(key)
                if step in steps or step[0] not in named:
                    begun[ref.label].setdefault(step, []).append(key)
    chosen, remaining = set[str](), budget_s

    def price(keys: Collection[str]) -> float:
        return math.fsum(seconds[task_key] for task_key in keys)  # whatever their order

    def new(key: str) -> set[str]:
        return with_needs(tasks, [key]) - chosen

    def take(key: str) -> None:
        nonlocal remaining
        wanted = new(key)
        cost = price(wanted)
        if cost <= remaining:
            remaining -= cost
            chosen.update(wanted)

    for label in sorted(requested, key=lambda name: sum(whole[keys[0]] for keys in begun[name].values())):
        for keys in begun[label].values() or [requested[label]]:
            if chosen.isdisjoint(keys):
                take(min(keys[:COMPARED], key=lambda candidate: price(new(candidate))))
    rounds = range(max(map(len, requested.values()), default=0))
    turns = [queue[turn] for turn in rounds for queue in requested.values() if turn < len(queue)]
    for key in dict.fromkeys([*(key for key in tasks if key in first), *turns, *ends]):
        take(key)
    return chosen


def _step(task: Task) -> Step:
    return task.spec.track, task.spec.step
