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

    Tasks that have a result cost nothing. A task is expected to take as long as similar ones; if none was timed, as
    long as the others in the mean, or one second if none of these was timed either.

    Args:
        graphs: the graphs, which are changed in place.
        store: the store with the results.
        times: how long tasks take.
        first: track -> keys of the tasks of its first table.
        budget: seconds of one worker as text, such as "90m".
        fresh: whether tasks that have a result are computed again.
    """
    budget_s, tasks = read_budget(budget), {key: task for graph in graphs for key, task in graph.tasks.items()}
    done = set[str]() if fresh else finished(store, tasks)
    waiting = {key: task for key, task in tasks.items() if key not in done}
    first_keys = set[str]().union(*first.values())
    selected = done | within_budget(waiting, expected(waiting, times), budget_s, first_keys)
    for graph in graphs:
        left_out = [task for key, task in graph.tasks.items() if key not in selected]
        counts = Counter(task.spec.step for task in left_out)
        for task in left_out:
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
    """Return the keys of the tasks that fit into a budget, with all tasks that they need.

    A task is chosen together with what it needs, if the cost of all that fits into the rest of the budget. Here an
    *entry* is a component other than a data set, and a *last task* is one that no other task needs. The order is:

    1. A first number for every entry: one last task of each of its steps. In a track with tasks in `first`, only the
       steps of these tasks count. Of the `COMPARED` cheapest last tasks, the one is taken that adds least to the cost.
    2. The tasks `first`.
    3. In turns, the next last task of every entry, the cheapest first. So all entries have a first number before any
       gets a precise one.
    """
    needed = {need for task in tasks.values() for need in task.spec.needs.values()}
    with_needs_s = dict[str, float]()  # key -> seconds of a task and all that it needs
    for key, task in tasks.items():  # every task comes after those that it needs
        with_needs_s[key] = seconds[key] + sum(with_needs_s.get(need, 0.0) for need in task.spec.needs.values())
    last_tasks = sorted(tasks.keys() - needed, key=lambda task_key: (with_needs_s[task_key], task_key))
    first_steps = {_step(tasks[key]) for key in first if key in tasks}
    tracks_with_first = {track for track, _ in first_steps}
    by_entry = defaultdict[str, list[str]](list)  # label -> its last tasks, the cheapest first
    by_step = defaultdict[str, dict[Step, list[str]]](dict)  # label -> the same in each step that counts for 1.
    for key in last_tasks:
        step = _step(tasks[key])
        for role, ref in tasks[key].spec.named().items():
            if role != "dataset":
                by_entry[ref.label].append(key)
                if step in first_steps or step[0] not in tracks_with_first:
                    by_step[ref.label].setdefault(step, []).append(key)
    chosen, remaining_s = set[str](), budget_s

    def cost(keys: Collection[str]) -> float:
        return math.fsum(seconds[task_key] for task_key in keys)  # the same in every order

    def not_chosen(key: str) -> set[str]:
        """Return a task and all that it needs, without what is chosen already."""
        return with_needs(tasks, [key]) - chosen

    def take_if_it_fits(key: str) -> None:
        nonlocal remaining_s
        further = not_chosen(key)
        if cost(further) <= remaining_s:
            remaining_s -= cost(further)
            chosen.update(further)

    for label in sorted(by_entry, key=lambda name: sum(with_needs_s[keys[0]] for keys in by_step[name].values())):
        for keys in by_step[label].values() or [by_entry[label]]:
            if chosen.isdisjoint(keys):
                take_if_it_fits(min(keys[:COMPARED], key=lambda candidate: cost(not_chosen(candidate))))
    rounds = range(max(map(len, by_entry.values()), default=0))
    in_turns = [queue[turn] for turn in rounds for queue in by_entry.values() if turn < len(queue)]
    for key in dict.fromkeys([*(key for key in tasks if key in first), *in_turns, *last_tasks]):
        take_if_it_fits(key)
    return chosen


def _step(task: Task) -> Step:
    return task.spec.track, task.spec.step
