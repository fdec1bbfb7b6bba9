"""A line of the report, and the shortest time of several passes."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Line(NamedTuple):
    """One line of the report; `met` says whether the goal was reached."""

    what: str
    measured: str
    goal: str
    met: bool


def best_of(passes: int, work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the shortest time of `work` in several passes, s; a first pass to warm up does not count.

    By default CPU time of this process counts, which other work on the machine hardly changes.
    """
    work()
    times = []
    for _ in range(passes):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)
