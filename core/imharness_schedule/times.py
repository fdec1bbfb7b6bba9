"""How long tasks take, learnt from finished ones that are most alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean, median

from pydantic import BaseModel, ConfigDict

from imharness.errors import StoreError
from imharness.results.identity import digest
from imharness.results.records import TaskRecord, TaskSpec
from imharness.results.store import Store

FOLDER = "times"
KEPT = 9
"""How many finished tasks of one kind are remembered."""
SAMPLE = 1000
"""How many records are read of a store that remembers no times yet."""


class Kind(BaseModel):
    """Tasks that are expected to take the same time: those of one step with the same components on as many images.

    `components`: labels, sorted, without measures. `seconds`, `bytes`: of the last tasks, the oldest first.
    """

    model_config = ConfigDict(extra="forbid")

    track: str
    step: str
    components: tuple[str, ...]
    limit: int | None
    seconds: list[float] = []
    bytes: list[int] = []

    @property
    def place(self) -> Place:
        """What it is found by."""
        return (self.track, self.step, self.limit, self.components)

    def add(self, seconds: float, size: int | None = None) -> None:
        """Add a finished task."""
        self.seconds = [*self.seconds, seconds][-KEPT:]
        if size is not None:
            self.bytes = [*self.bytes, size][-KEPT:]


Place = tuple[str, str, int | None, tuple[str, ...]]
Group = tuple[str, str, int | None] | tuple[str, str, int | None, str]
"""Kinds of one step, or of one step and component."""


class TimesFile(BaseModel):
    """The times that a store remembers of one device."""

    model_config = ConfigDict(extra="forbid")

    device: str
    kinds: list[Kind]


def place_of(spec: TaskSpec) -> Place:
    """Return what the kind of a task is found by."""
    return (spec.track, spec.step, spec.limit, tuple(sorted({ref.label for ref in spec.named().values()})))


@dataclass
class Times:
    """The times of finished tasks on one device, and estimates for others.

    An estimate is the median of the tasks with the same step and components; without any, the mean over the kinds with
    the same step and the component that makes tasks longest; then over those with the same step. Few kinds take most
    of the time, so a median over kinds would tell of a sum that is much too small. Tasks on another number of images
    count for nothing.
    """

    device: str
    kinds: dict[Place, Kind] = field(default_factory=dict)
    changed: bool = False
    _levels: dict[str, _Levels] = field(default_factory=dict)

    def add(self, spec: TaskSpec, seconds: float, size: int | None = None) -> None:
        """Learn from a task that took so many seconds and left so many bytes."""
        track, step, limit, components = place = place_of(spec)
        if place not in self.kinds:
            self.kinds[place] = Kind(track=track, step=step, limit=limit, components=components)
        self.kinds[place].add(seconds, size)
        self.changed = True
        for levels in self._levels.values():
            levels.take(self.kinds[place])

    def learn(self, record: TaskRecord) -> None:
        """Learn from a record of this device."""
        if record.status == "done" and record.device == self.device:
            files = [file for file in (record.rows, record.arrays) if file is not None]
            self.add(record.spec, record.seconds, sum(file.size for file in files))

    def learn_from(self, store: Store, key: str) -> None:
        """Learn from a task of a store; one that is missing, damaged or of another device says nothing."""
        with suppress(StoreError):
            record = store.record(key)
            if record is not None:
                self.learn(record)

    def seconds(self, place: Place) -> float | None:
        """Return the expected seconds of a task, or None where no task is like it."""
        return self._estimate("seconds", lambda kind: kind.seconds, place)

    def size(self, place: Place) -> float | None:
        """Return the bytes that a task is expected to leave in the store, or None."""
        return self._estimate("bytes", lambda kind: kind.bytes, place)

    def keep(self, store: Store) -> None:
        """Write what was learnt into a store."""
        kinds = [self.kinds[place] for place in sorted(self.kinds, key=str)]
        file = TimesFile(device=self.device, kinds=kinds)
        store.replace(f"{FOLDER}/{digest(self.device)[:12]}.json", file)
        self.changed = False

    def _estimate(self, name: str, values: Callable[[Kind], Sequence[float]], place: Place) -> float | None:
        if name not in self._levels:
            self._levels[name] = _Levels(values)
            for kind in self.kinds.values():
                self._levels[name].take(kind)
        return self._levels[name].estimate(place)


class _Levels:
    """Medians by kind, and their means by step and component, and by step.

    A kind that changes changes its own groups alone: a run asks after each of thousands of tasks.
    """

    def __init__(self, values: Callable[[Kind], Sequence[float]]) -> None:
        self._values = values
        self._usual = dict[Place, float]()
        self._groups = defaultdict[Group, dict[Place, float]](dict)
        self._means = dict[Group, float]()

    def take(self, kind: Kind) -> None:
        """Take in the values of a kind, in place of those it had."""
        found, place = self._values(kind), kind.place
        if not found:
            return
        usual = self._usual[place] = median(found)
        for group in (_step(place), *_parts(place)):
            self._groups[group][place] = usual
            self._means.pop(group, None)

    def estimate(self, place: Place) -> float | None:
        if place in self._usual:
            return self._usual[place]
        alike = [self._mean(part) for part in _parts(place) if part in self._groups]
        step = _step(place)
        return max(alike, default=self._mean(step) if step in self._groups else None)

    def _mean(self, group: Group) -> float:
        if group not in self._means:
            self._means[group] = fmean(self._groups[group].values())
        return self._means[group]


def _step(place: Place) -> Group:
    return place[:3]


def _parts(place: Place) -> list[Group]:
    return [(*place[:3], label) for label in place[3]]


def learnt_times(store: Store, device: str) -> Times:
    """Return what a store remembers of a device; without a memory, what a sample of its records says."""
    times = Times(device)
    for file in store.documents(FOLDER, TimesFile):
        if file.device == device:
            times.kinds = {kind.place: kind for kind in file.kinds}
            return times
    for key in islice(store.all_keys(), SAMPLE):  # sorted digests: the first are a random choice
        times.learn_from(store, key)
    return times
