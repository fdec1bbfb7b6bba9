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


def best_of(passes: int, function: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the shortest time of `function` in several passes, s; a first pass to warm up does not count.

    By default CPU time of this process counts, which other work on the machine hardly changes.
    """
    function()
    times = []
    for _ in range(passes):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)
