"""Watches a run: shows its progress, writes it to the store, learns how long tasks take, and has its tables made."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol

from imharness.contracts.component import KINDS
from imharness.contracts.image_dataset import ImageDataset
from imharness.contracts.table_dataset import TableDataset
from imharness.contracts.track import Track
from imharness.documents.naming import brief, without_parameters
from imharness.errors import StoreError, UsageError
from imharness.planning.plan import Graph, Task
from imharness.planning.profile import Profile
from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running.schedule import sharding
from imharness.running.schedule.estimates import Estimate, Running, Times, step_of
from imharness.running.schedule.order import expected, first_tasks, priorities, samples
from imharness.running.schedule.state import Busy, Part, RunState, new_state
from imharness.running.sweep import RunResult
from imharness.running.views import View, pause_after

STATE_S = 15.0
"""The time between two writes of the progress to the store, s."""
LEARNING = 0.01
"""The share of a run's time that may be spent on reading records to learn from."""
SHOWN_FAILURES = 20
OPTIONAL = re.compile(r"\[([^\]]*)\]")
"""In the words of a step, such as "scores {dataset}[ behind {defense}]": a clause that needs the roles in it."""
ROLES = re.compile(r"\{(\w+)\}")
"""In the words of a step: a role."""


class Publisher(Protocol):
    """Makes tables while a run goes on."""

    page: str
    """The page that shows them; empty before the first."""

    def offer(self, outcome: RunResult, left_s: float | None) -> None:
        """Make tables of what is done, if it is time for that. `left_s`: how long the run will still take."""


class RunWatch:
    """Gives a run its order and its shards, and is told what happens in it: `order` and `watch` of `execute`.

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
        self._graphs = {graph.track.info.id: graph for graph in graphs}
        self._store, self._publisher, self._command, self._noted = store, publisher, command, noted
        self._views = dict.fromkeys([view, *others], float("-inf"))
        self._first = [set(keys) for keys in first]
        self.times = times
        self._estimate = Estimate(times)
        self._cut = set[str]()  # keys of tasks that were cut into shards
        self._shared = {
            (graph.track.info.id, step.name) for graph in graphs for step in graph.track.steps if step.shared
        }
        self._done = {graph.track.info.id: 0 for graph in graphs}
        self._totals = {graph.track.info.id: len(graph.tasks) for graph in graphs}
        self._running: dict[str, float] = {}
        self._state: RunState | None = None
        self._outcome = RunResult()
        self._begun = time.monotonic()
        self._learning = 0.0  # seconds spent on reading records so far
        self._saved = self._silent_until = float("-inf")

    def order(self, waiting: Mapping[str, Task]) -> dict[str, float]:
        """Return the priority of each task; the smallest starts first."""
        self._estimate.expect(waiting.values())
        then = samples(waiting, self.times, set().union(*self._first))
        return priorities(waiting, expected(waiting, self.times), self._first, then)

    def shards(self, key: str) -> int:
        """Return into how many shards a task that starts now is cut: the longer it takes, the more; 1: uncut."""
        spec = self._tasks[key].spec
        cost = self.times.cost(spec) if (spec.track, spec.step) in self._shared else None
        if cost is None or cost.seconds < sharding.SHORTEST_S:
            return 1
        remaining = self._estimate.remaining()
        shards = sharding.number_of_shards(cost.seconds, remaining[0] if remaining else 0.0)
        if shards > 1:
            self._cut.add(key)
        return shards

    def watch(self, outcome: RunResult, running: Mapping[str, float]) -> None:
        """Note the progress of the run, and show it in each view that is due, and in the store.

        The first call comes before `order`, so that it only notes which tasks have a result already.
        """
        now = time.monotonic()
        if self._state is None:
            self._outcome = outcome
            for key in outcome.done:
                self._done[self._tasks[key].spec.track] += 1
            self._state = new_state(self._command, self._by_track(), outcome.reused)
            return
        for key in self._running.keys() - running.keys():
            if key in outcome.done:
                self._done[self._tasks[key].spec.track] += 1
                self._learn(key, now)
            if key in outcome.done or key in outcome.failed:
                self._estimate.ended(self._tasks[key].spec)
        self._running = dict(running)
        begun = [self._tasks[key].spec.track for key, since in running.items() if math.isfinite(since)]
        for device, count in Counter(map(self.times.device_of, begun)).items():
            self._estimate.busy(count, device)
        if self._publisher is not None:
            self._publisher.offer(outcome, self._state.left_s)
        self._tell(now)

    def tell(self) -> None:
        """Show the progress of a run whose tasks have ended and whose tables are being made."""
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
                whole = key not in self._cut and math.isfinite(self._running[key])
                self.times.learn(record, now - self._running[key] if whole else 0.0)
        self._learning += time.monotonic() - start

    def _tell(self, now: float, state: str = "running") -> None:
        """Show the progress in each view, and save it, if that is due or the run has ended."""
        ended = state != "running"
        due = [view for view, shown_at in self._views.items() if ended or now - shown_at >= view.every_s]
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
        """Return the present state of the run."""
        failed, shares = self._outcome.failed, self._outcome.shares
        busy, running = list[Busy](), list[Running]()
        for key, since in self._running.items():
            if math.isfinite(since):
                spec, seconds = self._tasks[key].spec, now - since
                busy.append(Busy(track=spec.track, task=self._words(key), seconds=seconds, key=key))
                running.append(Running(step_of(spec), seconds, shares.get(key, 0.0)))
        remaining = self._estimate.remaining(running)
        keys = {self._tasks[key].address: key for key in list(failed)[:SHOWN_FAILURES]}
        changes = {
            "state": state,
            "updated": datetime.now(UTC).isoformat(timespec="seconds"),
            "tracks": self._by_track(),
            "failed": len(failed),
            "failing": {address: failed[key] for address, key in keys.items()},
            "failing_keys": keys,
            "running": tuple(busy),
            "rate": self._estimate.rate(),
            "left_s": remaining[0] if remaining else None,
            "at_least": remaining is not None and remaining[1],
            "page": self._publisher.page if self._publisher else "",
        }
        assert self._state is not None
        return self._state.model_copy(update=changes)

    def _words(self, key: str) -> str:
        """Return what a task computes, in words of its track."""
        spec = self._tasks[key].spec
        graph = self._graphs[spec.track]
        ref = spec.components.get("dataset")
        dataset = graph.components.get(f"dataset {ref.label}") if ref else None
        units = dataset.published_units() if isinstance(dataset, ImageDataset | TableDataset) else 0
        return doing(graph.track, spec, units)

    def _by_track(self) -> dict[str, Part]:
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
                self.times.keep(self._store)
        finally:
            for view in self._views:
                view.close()


def doing(track: Track, spec: TaskSpec, units: int = 0) -> str:
    """Return what a task computes, in words of its track; see `imharness.contracts.track.step`.

    `units`: how many images or rows the data set has, 0 where that is not known. A track without words for a step has
    the step's name and the components, without their parameters.
    """
    names = {role: brief(without_parameters(ref.label)) for role, ref in spec.named().items()}
    words = next((step.doing for step in track.steps if step.name == spec.step), "")
    if not words:
        others = (name for role, name in names.items() if role != "dataset")
        return " ".join([spec.step.replace("_", " "), *dict.fromkeys(others)])
    count = units if spec.limit is None else min(units, spec.limit)
    fields = defaultdict(str, names | {"count": f"{count:,} " if count else ""})

    def clause(match: re.Match[str]) -> str:
        has_roles = set(ROLES.findall(match[1])) <= names.keys()
        return match[1] if has_roles else ""

    return OPTIONAL.sub(clause, words).format_map(fields)


def first_sets(graphs: Sequence[Graph], profile: Profile) -> dict[str, set[str]]:
    """Return for each track the tasks of its first table; none if the profile names none.

    Raises `UsageError` if the profile names something that is not a kind of component.
    """
    sets = dict[str, set[str]]()
    for graph in graphs:
        first = profile.tracks[graph.track.info.id].first
        for kind in first.keys() - KINDS - {"step"}:
            raise UsageError(f'profile {profile.name}: first: {kind!r} is neither a kind of component nor "step".')
        sets[graph.track.info.id] = first_tasks(graph.tasks, first)
    return sets
