"""How long tasks take: mean seconds of the finished ones, times what is left, over the workers.

This is the one source of estimates: order, shards, budgets, progress and `--dry-run` ask here.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from imharness.planning.plan import Task
from imharness.results.identity import digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec

FOLDER = "times"
RATE_S = 120.0
"""The rate of a run is that of its last so many seconds."""


class Group(NamedTuple):
    """Names similar tasks: those of a step on `limit` images (None: all), with a component of a label unless it is "".

    `component` is that label.
    """

    track: str
    step: str
    limit: int | None
    component: str = ""


class Total(NamedTuple):
    """What finished tasks took together: seconds, and bytes in the store."""

    tasks: int = 0
    seconds: float = 0.0
    bytes: int = 0

    def plus(self, other: Total) -> Total:
        """Return the sum of both."""
        return Total(self.tasks + other.tasks, self.seconds + other.seconds, self.bytes + other.bytes)


class Cost(NamedTuple):
    """What a task is expected to take: seconds of one worker, and bytes in the store."""

    seconds: float
    bytes: float


class TimesFile(BaseModel):
    """The totals that a store remembers of one device."""

    model_config = ConfigDict(extra="forbid")

    device: str
    totals: list[tuple[Group, Total]]


def step_of(spec: TaskSpec) -> Group:
    """Return the group of all tasks of a task's step."""
    return Group(spec.track, spec.step, spec.limit)


def groups_of(spec: TaskSpec) -> list[Group]:
    """Return the groups that a task belongs to: its step, then one for each component."""
    step = step_of(spec)
    return [step, *(step._replace(component=label) for label in sorted({ref.label for ref in spec.named().values()}))]


@dataclass
class Times:
    """How long tasks take on one device: the mean of a group in this run, or in earlier runs until this one has any.

    Tasks on another number of images are of other groups.

    Args:
        device: the name of the device that computes most tracks.
        earlier: group -> what its tasks took in earlier runs.
        others: track -> the name of another device, for each track that is computed on one.
    """

    device: str
    earlier: Mapping[Group, Total] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    _run: dict[Group, Total] = field(default_factory=dict)

    def device_of(self, track: str) -> str:
        """Return the device that computes a track."""
        return self.others.get(track, self.device)

    def add(self, spec: TaskSpec, seconds: float, size: int = 0) -> None:
        """Learn from a task of this run that took so many seconds and left so many bytes."""
        for group in groups_of(spec):
            self._run[group] = self._run.get(group, Total()).plus(Total(1, seconds, size))

    def learn(self, record: TaskRecord, busy_s: float = 0.0) -> None:
        """Learn from a record of its track's device; its worker was busy for `busy_s`, perhaps longer than recorded."""
        if record.status == "done" and record.device == self.device_of(record.spec.track):
            arrays = 0 if record.arrays is None else record.arrays.size
            self.add(record.spec, max(record.seconds, busy_s), record.size + arrays)

    def mean(self, group: Group) -> Cost | None:
        """Return what a task of a group took in the mean, or None where none has finished."""
        total = self._run.get(group) or self.earlier.get(group)
        return Cost(total.seconds / total.tasks, total.bytes / total.tasks) if total else None

    def cost(self, spec: TaskSpec) -> Cost | None:
        """Return what a task is expected to take, by the means of its components in its step, or of its step alone.

        None is returned for a step of which no task has finished.
        """
        step, *components = groups_of(spec)
        means = [mean for group in components or [step] if (mean := self.mean(group))]
        if not means:
            return self.mean(step)
        return Cost(sum(mean.seconds for mean in means) / len(means), sum(mean.bytes for mean in means) / len(means))

    def keep(self, store: Store) -> None:
        """Add the times of this run to those in a store."""
        for device in {self.device_of(group.track) for group in self._run}:
            totals = _remembered(store, device)
            for group, total in self._run.items():
                if self.device_of(group.track) == device:
                    totals[group] = totals.get(group, Total()).plus(total)
            file = TimesFile(device=device, totals=sorted(totals.items(), key=str))
            store.replace(f"{FOLDER}/{digest(device)[:12]}.json", file)


def learnt_times(store: Store, device: str, others: Mapping[str, str] | None = None) -> Times:
    """Return the times that a store has of a device, and of other devices for their tracks.

    `others`: track -> device, for each track that is computed on another device.
    """
    times = Times(device, others=others or {})
    earlier = dict[Group, Total]()
    for name in {device, *times.others.values()}:
        for group, total in _remembered(store, name).items():
            if times.device_of(group.track) == name:
                earlier[group] = total
    return replace(times, earlier=earlier)


def _remembered(store: Store, device: str) -> dict[Group, Total]:
    """Return group -> what its tasks took on one device, for all tracks, from the file in a store."""
    files = (document for document in store.documents(FOLDER, TimesFile) if isinstance(document, TimesFile))
    return next((dict(file.totals) for file in files if file.device == device), {})


class Left(NamedTuple):
    """What tasks that are left to do are expected to cost.

    Args:
        tasks: how many they are.
        unknown: how many of these are of a step of which no task has finished.
        seconds: of one worker, without the unknown ones; a lower bound if there are any.
        bytes: in the store; each unknown one counts as the mean of the others.
    """

    tasks: int
    unknown: int
    seconds: float
    bytes: float


def cost_of(tasks: Iterable[Task], times: Times) -> Left | None:
    """Return what tasks cost, or None where nothing is known of any step."""
    costs = [times.cost(task.spec) for task in tasks]
    estimates = [cost for cost in costs if cost is not None]
    if costs and not estimates:
        return None
    size = sum(cost.bytes for cost in estimates) * len(costs) / max(len(estimates), 1)
    return Left(len(costs), len(costs) - len(estimates), sum(cost.seconds for cost in estimates), size)


class Running(NamedTuple):
    """A task that is being computed: its step, for how many seconds, and the share of it that is computed, if told."""

    step: Group
    seconds: float
    share: float = 0.0


class Estimate:
    """Says what is left of a run, and how fast it is, while its tasks end."""

    def __init__(self, times: Times) -> None:
        self._times, self._workers = times, Counter[str]()
        self._waiting = Counter[Group]()
        self._recent = deque[float]()

    def expect(self, tasks: Iterable[Task]) -> None:
        """Add tasks that are to run."""
        self._waiting.update(step_of(task.spec) for task in tasks)

    def busy(self, workers: int, device: str = "") -> None:
        """Note how many tasks run at once on a device, by default on that of most tracks."""
        device = device or self._times.device
        self._workers[device] = max(self._workers[device], workers)

    def ended(self, spec: TaskSpec) -> None:
        """Note that a task ended."""
        self._waiting[step_of(spec)] -= 1
        self._recent.append(time.monotonic())

    def remaining(self, running: Iterable[Running] = ()) -> tuple[float, bool] | None:
        """Return the seconds that are left, and whether they are a lower bound; None while no task can be estimated.

        A step is known if one of its tasks has finished. A running task of an unknown step can still be estimated if it
        says which share of it is computed; the other tasks of unknown steps count as zero seconds.
        """
        waiting, seconds = self._waiting.copy(), defaultdict[str, float](float)
        means = {step: mean.seconds for step in waiting if (mean := self._times.mean(step))}
        for task in running:
            device = self._times.device_of(task.step.track)
            if task.step in means:
                seconds[device] += max(means[task.step] - task.seconds, 0.0)
            elif task.share:
                seconds[device] += task.seconds * (1 / task.share - 1)
            else:
                continue
            waiting[task.step] -= 1
        unknown = sum(number for step, number in waiting.items() if step not in means)
        if unknown and unknown == sum(self._waiting.values()):
            return None
        for step, number in waiting.items():
            seconds[self._times.device_of(step.track)] += number * means.get(step, 0.0)
        by_device = (total / max(self._workers[device], 1) for device, total in seconds.items())
        return max(by_device, default=0.0), unknown > 0  # the slowest device decides

    def rate(self) -> float | None:
        """Return how many tasks ended per minute in the last `RATE_S`, or None if fewer than two did."""
        now = time.monotonic()
        while self._recent and now - self._recent[0] > RATE_S:
            self._recent.popleft()
        if len(self._recent) < 2:
            return None
        return 60 * len(self._recent) / max(now - self._recent[0], 1e-3)
