"""How long a run has still to go, from the times of tasks that are like those which wait."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from imharness.planning.plan import Task
from imharness.running.schedule.times import Place, Times, place_of

RATE_S = 120.0
"""The rate of a run is that of its last seconds."""
FEWEST = 10
"""From so many finished tasks on, the estimate goes by how much work a second the run has done so far."""


class Forecast:
    """Estimates what is left of a run while its tasks end."""

    def __init__(self, times: Times, tasks: Mapping[str, Task]) -> None:
        self._times = times
        self._places = {key: place_of(task.spec) for key, task in tasks.items()}
        self._waiting: Counter[Place] = Counter()
        self._worked, self._ended, self._widest, self._begun = 0.0, 0, 1, float("inf")
        self._recent = deque[float]()

    def expect(self, keys: Iterable[str]) -> None:
        """Take in the tasks that are to run."""
        self._waiting.update(self._places[key] for key in keys)

    def busy(self, workers: int) -> None:
        """Take in how many tasks run at once."""
        self._widest = max(self._widest, workers)
        if workers:
            self._begun = min(self._begun, time.monotonic())

    def ended(self, key: str) -> None:
        """Take in that a task ended."""
        place = self._places[key]
        self._waiting[place] -= 1
        self._ended += 1
        self._recent.append(time.monotonic())
        self._worked += self._times.seconds(place) or 0.0

    def left_s(self, running: Mapping[str, float]) -> float | None:
        """Return the seconds that are left, or None while too little is known.

        Tasks that nothing is like count as the mean of the others; there is no estimate while they are the majority.
        `running`: key -> seconds that it has been running for.
        """
        total, known, unknown = 0.0, 0, 0
        for place, count in self._waiting.items():
            usual = self._times.seconds(place) if count > 0 else None
            if usual is not None:
                total, known = total + count * usual, known + count
            else:
                unknown += max(count, 0)
        if not known or known < unknown:
            return None
        for key, gone in running.items():
            total -= min(gone, self._times.seconds(self._places[key]) or gone)
        whole = max(total, 0.0) * (1 + unknown / known)
        passed = time.monotonic() - self._begun
        own = self._worked / passed if self._ended >= FEWEST and passed > 0 else 0.0
        return whole / (own or self._widest)

    def rate(self) -> float | None:
        """Return how many tasks ended per minute lately, or None before the second one."""
        now = time.monotonic()
        while self._recent and now - self._recent[0] > RATE_S:
            self._recent.popleft()
        if len(self._recent) < 2:
            return None
        return 60 * len(self._recent) / max(now - self._recent[0], 1e-3)
