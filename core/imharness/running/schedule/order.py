"""Which task starts first: those of the first tables, then samples of all, then those that most work waits for."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from imharness.planning.plan import Task
from imharness.running.schedule.estimates import Group, Times, groups_of

UNKNOWN_S = 1.0
"""How long a task is assumed to take while no task has finished."""


def expected(tasks: Mapping[str, Task], times: Times) -> dict[str, float]:
    """Return the seconds that each task is expected to take; if nothing like it is known, the mean of the others."""
    costs = {key: times.cost(task.spec) for key, task in tasks.items()}
    seconds = [cost.seconds for cost in costs.values() if cost is not None]
    usual = sum(seconds) / len(seconds) if seconds else UNKNOWN_S
    return {key: usual if cost is None else cost.seconds for key, cost in costs.items()}


def with_needs(tasks: Mapping[str, Task], keys: Collection[str]) -> set[str]:
    """Return some tasks and all that they depend on."""
    needed, waiting = set[str](), list(keys)
    while waiting:
        key = waiting.pop()
        if key in tasks and key not in needed:
            needed.add(key)
            waiting += tasks[key].spec.needs.values()
    return needed


def first_tasks(tasks: Mapping[str, Task], first: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the keys of the tasks of a track's first table, with all that they depend on.

    `first`: what the first table is made of, as the profile says: kind of component -> ids or labels, and "step" ->
    names of steps. A task belongs to the table if its step is one of them, and so is each of its components of the
    kinds in `first`. If `first` is empty, no task does.
    """
    return with_needs(tasks, [key for key, task in tasks.items() if first and _fits(task, first)])


def _fits(task: Task, first: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a task belongs to the first table, see `first_tasks`."""
    if "step" in first and task.spec.step not in first["step"]:
        return False
    refs = [ref for ref in task.spec.named().values() if ref.kind in first]
    return bool(refs) and all(ref.id in first[ref.kind] or ref.label in first[ref.kind] for ref in refs)


def samples(tasks: Mapping[str, Task], times: Times, first: Collection[str]) -> tuple[set[str], set[str]]:
    """Return two sets of tasks that show how long the others will take, with all that they depend on.

    The first set has a task of each step of which no time is known, the second a task of each such component. Steps and
    components of the tasks `first`, which are computed anyway, need no sample.
    """
    sampled = {group for key in first if key in tasks for group in groups_of(tasks[key].spec)}
    of_steps = _samples(tasks, times, sampled, lambda groups: groups[:1])
    of_components = _samples(tasks, times, sampled, lambda groups: groups[1:])
    return of_steps, of_components


def _samples(
    tasks: Mapping[str, Task], times: Times, sampled: set[Group], wanted: Callable[[list[Group]], Collection[Group]]
) -> set[str]:
    """Return tasks until each wanted group has a known time or a sample. Groups of these are added to `sampled`.

    `wanted`: the groups of a task (see `groups_of`) -> those that need a sample.
    """
    samples = set[str]()
    for key, task in tasks.items():
        if all(group in sampled or times.mean(group) for group in wanted(groups_of(task.spec))):
            continue
        new = with_needs(tasks, [key]) - samples
        samples |= new
        sampled |= {group for sample in new for group in groups_of(tasks[sample].spec)}
    return samples


def chains(tasks: Mapping[str, Task], seconds: Mapping[str, float]) -> dict[str, float]:
    """Return for each task the seconds from its start to the end of the longest chain of tasks that need it."""
    after = dict.fromkeys(tasks, 0.0)
    for key in reversed(list(tasks)):  # every task comes after those that it needs
        whole = after[key] = after[key] + seconds[key]
        for need in tasks[key].spec.needs.values():
            if need in after:
                after[need] = max(after[need], whole)
    return after


def priorities(
    tasks: Mapping[str, Task],
    seconds: Mapping[str, float],
    first: Sequence[Collection[str]],
    then: Sequence[Collection[str]] = (),
) -> dict[str, float]:
    """Return key -> priority; the smallest starts first, of equal ones the task that was planned first.

    The sets `first` come first, the one with the least work before the others; then the sets `then` in their order;
    then the tasks for which the longest chains of other tasks wait. The lengths of chains are rounded to powers of two,
    so that tasks with similar ones stay in the planned order. That keeps tasks of one model and data set together: a
    worker uses what it built and read for the next task, too.
    """
    priorities = {key: -math.floor(math.log2(max(chain, 1e-3))) * 1.0 for key, chain in chains(tasks, seconds).items()}
    least_work_first = sorted(first, key=lambda keys: sum(seconds.get(key, 0.0) for key in keys))
    sets = [*least_work_first, *then]
    for rank, keys in enumerate(reversed(sets), start=1):  # the last set has the rank 1, the first one the highest
        priorities |= dict.fromkeys(priorities.keys() & keys, -1000.0 * rank)
    return priorities
