"""Which task starts first: those of the first tables, then those that most of the work waits for."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from imharness.planning.plan import Task
from imharness.running.schedule.times import Times, place_of

UNKNOWN_S = 1.0
"""What a task is taken to last while no task has finished."""


def expected(tasks: Mapping[str, Task], times: Times) -> dict[str, float]:
    """Return the seconds that each task is expected to take; the mean of the others where nothing is like it."""
    found = {key: times.seconds(place_of(task.spec)) for key, task in tasks.items()}
    known = [seconds for seconds in found.values() if seconds is not None]
    usual = sum(known) / len(known) if known else UNKNOWN_S
    return {key: usual if seconds is None else seconds for key, seconds in found.items()}


def chains(tasks: Mapping[str, Task], seconds: Mapping[str, float]) -> dict[str, float]:
    """Return for each task the seconds from its start to the end of the longest chain of tasks that need it."""
    after = dict.fromkeys(tasks, 0.0)
    for key in reversed(list(tasks)):  # every task stands behind those it needs
        whole = after[key] = after[key] + seconds[key]
        for need in tasks[key].spec.needs.values():
            if need in after:
                after[need] = max(after[need], whole)
    return after


def with_needs(tasks: Mapping[str, Task], keys: Collection[str]) -> set[str]:
    """Return some tasks and all that they depend on."""
    found, waiting = set[str](), list(keys)
    while waiting:
        key = waiting.pop()
        if key in tasks and key not in found:
            found.add(key)
            waiting += tasks[key].spec.needs.values()
    return found


def first_tasks(tasks: Mapping[str, Task], first: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the tasks of a track's first table, with all that they depend on.

    `first`: kind of component -> ids or labels, and "step" -> names. A task belongs to it where its step, and each
    component of a named kind, is one of them. Nothing belongs to an empty one.
    """
    return with_needs(tasks, [key for key, task in tasks.items() if first and _fits(task, first)])


def _fits(task: Task, first: Mapping[str, Sequence[str]]) -> bool:
    if "step" in first and task.spec.step not in first["step"]:
        return False
    parts = [ref for ref in task.spec.named().values() if ref.kind in first]
    return bool(parts) and all(ref.id in first[ref.kind] or ref.label in first[ref.kind] for ref in parts)


def priorities(
    tasks: Mapping[str, Task], seconds: Mapping[str, float], first: Sequence[Collection[str]]
) -> dict[str, float]:
    """Return a number for each task; the smallest starts first, of equals the one that was planned first.

    First come the sets `first`, the one with the least work before the others. Then comes what the longest chains wait
    for. Chains that differ by less than a factor of two stay in the planned order, which keeps tasks of one model and
    one data set together: what a worker has built and read for one, it uses for the next.
    """
    found = {key: -math.floor(math.log2(max(chain, 1e-3))) * 1.0 for key, chain in chains(tasks, seconds).items()}
    sizes = [sum(seconds.get(key, 0.0) for key in keys) for keys in first]
    for place, keys in enumerate(sorted(zip(sizes, first, strict=True), key=lambda pair: -pair[0]), start=1):
        for key in keys[1]:
            if key in found:
                found[key] = -1000.0 * place
    return found
