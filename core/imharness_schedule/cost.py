"""What tasks will cost: time, bytes, and what of them fits into a budget."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from imharness.errors import UsageError
from imharness.planning.plan import Task
from imharness_schedule.order import chains, expected, with_needs
from imharness_schedule.times import Times, place_of

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

    The tasks `first` come first, as far as they fit. Then every entry gets its cheapest task, then every one its next,
    and so on: all have a first number before any gets a precise one. An entry is a component that is no data set; the
    tasks that count are those that no other needs.
    """
    needed = {need for task in tasks.values() for need in task.spec.needs.values()}
    asked = defaultdict[str, list[str]](list)
    ends = sorted(tasks.keys() - needed, key=lambda own: (seconds[own], own))
    for key in ends:
        for role, ref in tasks[key].spec.named().items():
            if role != "dataset":
                asked[ref.label].append(key)
    rounds = range(max(map(len, asked.values()), default=0))
    turns = [own[turn] for turn in rounds for own in asked.values() if turn < len(own)]
    chosen, left = set[str](), budget_s
    for key in dict.fromkeys([*(key for key in tasks if key in first), *turns, *ends]):
        new = with_needs(tasks, [key]) - chosen
        cost = sum(seconds[own] for own in new)
        if cost <= left:
            chosen |= new
            left -= cost
    return chosen
