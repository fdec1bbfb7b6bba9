"""Watches a run: shows its progress, writes it to the store, learns how long tasks take, and has its tables made."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol

from imharness.contracts.component import KINDS
from imharness.errors import StoreError, UsageError
from imharness.planning.plan import Graph, Task
from imharness.planning.profile import Profile
from imharness.results.store import Store
from imharness.running.schedule import sharding
from imharness.running.schedule.estimates import Estimate, Times, place_of
from imharness.running.schedule.order import expected, first_tasks, priorities, samples
from imharness.running.schedule.state import Busy, Part, RunState, new_state
from imharness.running.sweep import RunResult
from imharness.running.views import View, pause_after, short

STATE_S = 15.0
"""The time between two writes of the progress to the store, s."""
LEARNING = 0.01
"""The share of a run's time that may be spent on reading records to learn from."""
SHOWN_FAILURES = 20


class Publisher(Protocol):
    """Makes tables while a run goes on."""

    page: str
    """The page that shows them; empty before the first."""

    def offer(self, outcome: RunResult, left_s: float | None) -> None:
        """Make tables of what is done, if it is time for that. `left_s`: how long the run will still take."""


class RunWatch:
    """Gives a run its order and its shards, and hears what happens in it: `order` and `watch` of `execute`.

    The run is finished when the block ends: its pages are then written, and the last state names them.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        store: Store,
        view: View,
        times: Times,
        *,
        first: Sequence[Iterable[str]] = (),
        publisher: Publisher | None = None,
        others: Sequence[View] = (),
        command: str = "",
        noted: bool = True,
    ) -> None:
        self._tasks: dict[str, Task] = {key: task for graph in graphs for key, task in graph.tasks.items()}
        self._store, self._publisher, self._command, self._noted = store, publisher, command, noted
        self._views = dict.fromkeys([view, *others], float("-inf"))
        self._first = [set(keys) for keys in first]
        self.times = times
        self._estimate = Estimate(times)
        self._cut = set[str]()
        self._shared = {(g.track.info.id, step.name) for g in graphs for step in g.track.steps if step.shared}
        self._done = {graph.track.info.id: 0 for graph in graphs}
        self._totals = {graph.track.info.id: len(graph.tasks) for graph in graphs}
        self._running: dict[str, float] = {}
        self._state: RunState | None = None
        self._outcome = RunResult()
        self._begun, self._learning = time.monotonic(), 0.0
        self._saved = self._silent_until = float("-inf")

    def order(self, waiting: Mapping[str, Task]) -> dict[str, float]:
        """Return the priority of each task; the smallest starts first."""
        self._estimate.expect(waiting)
        then = samples(waiting, self.times, set().union(*self._first))
        return priorities(waiting, expected(waiting, self.times), self._first, then)

    def shards(self, key: str) -> int:
        """Return into how many shards a task that starts now is cut: the longer it takes, the more; 1: uncut."""
        spec = self._tasks[key].spec
        seconds = self.times.seconds(place_of(spec)) if (spec.track, spec.step) in self._shared else None
        if seconds is None or seconds < sharding.SHORTEST_S:
            return 1
        left = self._estimate.left({})
        shards = sharding.number_of_shards(seconds, left[0] if left else 0.0)
        if shards > 1:
            self._cut.add(key)
        return shards

    def watch(self, outcome: RunResult, running: Mapping[str, float]) -> None:
        """Note the progress of the run, and pass it on to those whose time has come."""
        now = time.monotonic()
        if self._state is None:
            self._outcome = outcome
            for key in outcome.done:
                self._done[self._tasks[key].spec.track] += 1
            self._state = new_state(self._command, self._parts(), outcome.reused)
            return  # what comes first, and how long it takes, is asked for next
        for key in self._running.keys() - running.keys():
            if key in outcome.done:
                self._done[self._tasks[key].spec.track] += 1
                self._learn(key, now)
            if key in outcome.done or key in outcome.failed:
                self._estimate.ended(key)
        self._running = dict(running)
        for key in outcome.shares.keys() & running.keys():
            self._estimate.told(key, outcome.shares[key], now - running[key])
        self._estimate.busy(sum(map(math.isfinite, running.values())))
        if self._publisher is not None:
            self._publisher.offer(outcome, self._state.left_s)
        self._tell(now)

    def tell(self) -> None:
        """Pass on the progress of a run whose cells have ended and whose tables are being made."""
        self._running = {}
        self._tell(time.monotonic())

    def _learn(self, key: str, now: float) -> None:
        """Learn from the record of a task, unless reading takes too much of the run's time; skip a damaged one."""
        if self._learning > LEARNING * (now - self._begun) + 0.2:
            return
        start = time.monotonic()
        with suppress(StoreError):
            record = self._store.record(key)
            if record is not None:
                prepared = 0.0 if key in self._cut else self._estimate.prepared(key)
                self.times.learn(record, prepared)
                if key not in self._cut and math.isfinite(self._running[key]):
                    self._estimate.lasted(now - self._running[key], record.seconds - prepared)
        self._learning += time.monotonic() - start

    def _tell(self, now: float, state: str = "running") -> None:
        ended = state != "running"
        due = [view for view, shown in self._views.items() if ended or now - shown >= view.every_s]
        save = self._noted and (ended or now - self._saved >= STATE_S)
        if self._state is None or not (due or save) or (now < self._silent_until and not ended):
            return
        self._state = self._now(now, state)
        for view in due:
            self._views[view] = now
            view.show(self._state)
        after = time.monotonic()
        self._silent_until = after + pause_after(after - now)
        if save:
            self._saved = now
            self._state.save(self._store)

    def _now(self, now: float, state: str) -> RunState:
        gone = {key: now - since for key, since in self._running.items() if math.isfinite(since)}
        busy = tuple(
            Busy(track=self._tasks[k].spec.track, task=task_name(self._tasks[k]), seconds=s, key=k)
            for k, s in gone.items()
        )
        failed, left = self._outcome.failed, self._estimate.left(gone)
        keys = {self._tasks[key].address: key for key in list(failed)[:SHOWN_FAILURES]}
        changes = {
            "state": state,
            "updated": datetime.now(UTC).isoformat(timespec="seconds"),
            "tracks": self._parts(),
            "failed": len(failed),
            "failing": {address: failed[key] for address, key in keys.items()},
            "failing_keys": keys,
            "running": busy,
            "rate": self._estimate.rate(),
            "left_s": left[0] if left else None,
            "at_least": left is not None and left[1],
            "page": self._publisher.page if self._publisher else "",
        }
        assert self._state is not None
        return self._state.model_copy(update=changes)

    def _parts(self) -> dict[str, Part]:
        return {track: Part(done=self._done[track], total=total) for track, total in self._totals.items()}

    def __enter__(self) -> RunWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = {}
        try:
            with suppress(StoreError):  # the exception that ends a run says why
                self._tell(time.monotonic(), "finished" if error is None else "interrupted")
                if self.times.changed:
                    self.times.keep(self._store)
        finally:
            for view in self._views:
                view.close()


def task_name(task: Task) -> str:
    """Return a few words that say what a task computes: its step, and its components without their parameters."""
    names = (short(ref.id) for role, ref in task.spec.named().items() if role != "dataset")
    return " ".join([task.spec.step, *dict.fromkeys(names)])


def first_sets(graphs: Sequence[Graph], profile: Profile) -> dict[str, set[str]]:
    """Return for each track the tasks of its first table; none if the profile names none.

    Raises `UsageError` if the profile names something that is not a kind of component.
    """
    found = dict[str, set[str]]()
    for graph in graphs:
        first = profile.tracks[graph.track.info.id].first
        for kind in first.keys() - KINDS - {"step"}:
            raise UsageError(f'profile {profile.name}: first: {kind!r} is neither a kind of component nor "step".')
        found[graph.track.info.id] = first_tasks(graph.tasks, first)
    return found
