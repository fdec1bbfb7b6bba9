"""What tasks will cost: time, bytes, and what of them fits into a budget."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from imharness.errors import UsageError
from imharness.planning.plan import Task
from imharness.running.schedule.order import chains, expected, with_needs
from imharness.running.schedule.times import Times, place_of

COMPARED = 32
"""How many of an entry's cheapest tasks of a step are compared for its first number."""
Step = tuple[str, str]
"""A track and one of its steps."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Cost:
    """The cost of tasks on one device.

    `known`: how many of the `cells` have finished ones like them; the others count as the mean of these. `seconds`: of
    one worker. `longest_s`: of the longest chain of tasks that need each other.
    """

    device: str
    cells: int
    known: int
    seconds: float
    longest_s: float
    bytes: float

    def wall_s(self, workers: int) -> float:
        """Return the seconds that several workers need, at best."""
        return max(self.seconds / workers, self.longest_s)


def cost_of(tasks: Mapping[str, Task], times: Times) -> Cost | None:
    """Return what tasks cost, or None where no finished task is like any of them."""
    places = [place_of(task.spec) for task in tasks.values()]
    known = sum(times.seconds(place) is not None for place in places)
    if not known:
        return None
    seconds = expected(tasks, times)
    sizes = [size for place in places if (size := times.size(place)) is not None]
    return Cost(
        device=times.device, cells=len(tasks), known=known, seconds=sum(seconds.values()),
        longest_s=max(chains(tasks, seconds).values()), bytes=sum(sizes) * len(tasks) / max(len(sizes), 1),
    )  # fmt: skip


def read_budget(text: str) -> float:
    """Return the seconds of a budget such as ``90m``, ``40h`` or ``2d``; raises `UsageError` for another text."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if found is None or float(found[1]) == 0:
        raise UsageError(f"budget {text!r} is no time such as 90m, 40h or 2d.")
    return float(found[1]) * UNITS[found[2]]


def within_budget(
    tasks: Mapping[str, Task], seconds: Mapping[str, float], budget_s: float, first: Collection[str] = ()
) -> set[str]:
    """Return the tasks that fit into so many seconds of one worker, with all that they depend on.

    First every entry gets a number: one task of each step that it takes part in, of a track with tasks in `first` only
    of the steps of these; the task that costs least with all it needs and what is not chosen yet. Then come the
    tasks `first`, as far as they fit. Then every entry gets its next task, then every one the next: all have a first
    number before any gets a precise one. An entry is a component that is no data set; the tasks that count are those
    that no other needs.
    """
    needed, whole = {need for task in tasks.values() for need in task.spec.needs.values()}, dict[str, float]()
    for key, task in tasks.items():  # every task stands behind those it needs
        whole[key] = seconds[key] + sum(whole.get(need, 0.0) for need in task.spec.needs.values())
    steps = {_step(tasks[key]) for key in first if key in tasks}
    named = {track for track, _ in steps}
    asked, begun = defaultdict[str, list[str]](list), defaultdict[str, dict[Step, list[str]]](dict)
    ends = sorted(tasks.keys() - needed, key=lambda own: (whole[own], own))
    for key in ends:
        step = _step(tasks[key])
        for role, ref in tasks[key].spec.named().items():
            if role != "dataset":
                asked[ref.label].append(key)
                if step in steps or step[0] not in named:
                    begun[ref.label].setdefault(step, []).append(key)
    chosen, left = set[str](), budget_s

    def price(keys: Collection[str]) -> float:
        return math.fsum(seconds[own] for own in keys)  # whatever their order

    def new(key: str) -> set[str]:
        return with_needs(tasks, [key]) - chosen

    def take(key: str) -> None:
        nonlocal left
        wanted = new(key)
        cost = price(wanted)
        if cost <= left:
            left -= cost
            chosen.update(wanted)

    for label in sorted(asked, key=lambda own: sum(whole[keys[0]] for keys in begun[own].values())):
        for keys in begun[label].values() or [asked[label]]:
            if chosen.isdisjoint(keys):
                take(min(keys[:COMPARED], key=lambda own: price(new(own))))
    rounds = range(max(map(len, asked.values()), default=0))
    turns = [own[turn] for turn in rounds for own in asked.values() if turn < len(own)]
    for key in dict.fromkeys([*(key for key in tasks if key in first), *turns, *ends]):
        take(key)
    return chosen


def _step(task: Task) -> Step:
    return task.spec.track, task.spec.step
