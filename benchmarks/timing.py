"""Timing: the best of several passes, after a warm-up."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Line(NamedTuple):
    """One line of the report."""

    what: str
    measured: str
    goal: str
    met: bool


def best_of(passes: int, work: Callable[[], object]) -> float:
    """Return the shortest time of `work` in seconds, the first pass not counted."""
    work()
    times = []
    for _ in range(passes):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
