"""What is left: how long tasks will take several workers, before a run and while it goes on, and how fast it is."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from imharness.planning.plan import Task
from imharness.running.schedule.order import chains
from imharness.running.schedule.times import Place, Times, place_of

RATE_S = 120.0
"""The rate of a run is that of its last seconds."""
OVERHEADS = 99
"""Of so many tasks, the last ones, it counts how much longer they took a worker than their records say."""
LONGER = 0.5
"""A task that takes longer than expected is expected to go on for this part of the time that it has taken already."""


@dataclass(frozen=True)
class Left:
    """What tasks still cost.

    `seconds`: of one worker; `longest_s`: of the longest chain of tasks that need each other. `unknown`: how many of
    the `cells` are of steps of which no task has finished; seconds are without these, a lower bound if there are any.
    """

    cells: int
    unknown: int
    seconds: float
    longest_s: float

    def wall_s(self, workers: int) -> float:
        """Return the seconds that several workers need."""
        return max(self.seconds / max(workers, 1), self.longest_s)


def left_of(
    tasks: Mapping[str, Task],
    times: Times,
    *,
    running: Mapping[str, float] | None = None,
    overhead_s: float = 0.0,
    places: Mapping[str, Place] | None = None,
) -> Left | None:
    """Return what tasks still cost, or None where nothing is known of any step.

    Every task stands behind those it needs. `running`: key -> seconds that it has been running for. `overhead_s`: what
    a task takes a worker beyond the seconds in its record. `places`: key -> `place_of`, where that was asked before.
    """
    seconds, unknown, gone, found = dict[str, float](), 0, running or {}, dict[Place, float | None]()
    for key, task in tasks.items():
        place = places[key] if places else place_of(task.spec)
        if place not in found:
            found[place] = times.seconds(place)
        usual = found[place]
        unknown += usual is None
        whole = 0.0 if usual is None else usual + overhead_s
        seconds[key] = max(whole - gone[key], LONGER * gone[key]) if key in gone else whole
    if tasks and unknown == len(tasks):
        return None
    longest = max(chains(tasks, seconds).values(), default=0.0)
    return Left(len(tasks), unknown, sum(seconds.values()), longest)


class Estimate:
    """Says what is left of a run, and how fast it is, while its tasks end."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self._waiting, self._places = dict[str, Task](), dict[str, Place]()
        self._workers = 1
        self._overheads = deque[float](maxlen=OVERHEADS)
        self._recent = deque[float]()

    def expect(self, tasks: Mapping[str, Task]) -> None:
        """Take in the tasks that are to run."""
        self._waiting |= tasks
        self._places |= {key: place_of(task.spec) for key, task in tasks.items()}

    def busy(self, workers: int) -> None:
        """Take in how many tasks run at once."""
        self._workers = max(self._workers, workers)

    def ended(self, key: str) -> None:
        """Take in that a task ended."""
        self._waiting.pop(key, None)
        self._recent.append(time.monotonic())

    def lasted(self, wall_s: float, recorded_s: float) -> None:
        """Take in how long a task took its worker, and how long by its record."""
        self._overheads.append(max(wall_s - recorded_s, 0.0))

    def left(self, running: Mapping[str, float]) -> tuple[float, bool] | None:
        """Return the seconds that are left, and whether they are a lower bound; None while no step is known.

        `running`: key -> seconds that it has been running for.
        """
        overhead = median(self._overheads) if self._overheads else 0.0
        found = left_of(self._waiting, self._times, running=running, overhead_s=overhead, places=self._places)
        return None if found is None else (found.wall_s(self._workers), found.unknown > 0)

    def rate(self) -> float | None:
        """Return how many tasks ended per minute lately, or None before the second one."""
        now = time.monotonic()
        while self._recent and now - self._recent[0] > RATE_S:
            self._recent.popleft()
        if len(self._recent) < 2:
            return None
        return 60 * len(self._recent) / max(now - self._recent[0], 1e-3)


def bytes_of(tasks: Iterable[Task], times: Times) -> float:
    """Return the bytes that tasks will leave in a store; those of which nothing is known count as the mean."""
    sizes = [times.size(place_of(task.spec)) for task in tasks]
    known = [size for size in sizes if size is not None]
    return sum(known) * len(sizes) / max(len(known), 1)
