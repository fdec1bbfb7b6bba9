"""How long tasks take, learnt from finished ones that are most alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from statistics import median

from pydantic import BaseModel, ConfigDict

from imharness.errors import StoreError
from imharness.results.identity import digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec

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
        for levels in self._levels.values():
            levels.renew(self.kinds[place])
        self.changed = True

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
            self._levels[name] = _Levels(self.kinds.values(), values)
        return self._levels[name].estimate(place)


class _Levels:
    """Medians by kind, and the sums and numbers of them by step and component, and by step."""

    def __init__(self, kinds: Iterable[Kind], values: Callable[[Kind], Sequence[float]]) -> None:
        self._values = values
        self._kinds = dict[Place, float]()
        self._parts = dict[tuple[object, ...], tuple[float, int]]()
        for kind in kinds:
            self.renew(kind)

    def renew(self, kind: Kind) -> None:
        """Take in what a kind has become. What it costs does not depend on the number of kinds."""
        found, before = self._values(kind), self._kinds.get(kind.place)
        if not found:
            return
        usual = self._kinds[kind.place] = median(found)
        for part in (_whole(kind.place), *_parts(kind.place)):
            total, count = self._parts.get(part, (0.0, 0))
            self._parts[part] = (total + usual, count + 1) if before is None else (total + usual - before, count)

    def estimate(self, place: Place) -> float | None:
        if place in self._kinds:
            return self._kinds[place]
        known = [self._parts[part] for part in _parts(place) if part in self._parts]
        if not known:
            known = [self._parts[part] for part in (_whole(place),) if part in self._parts]
        return max((max(total / count, 0.0) for total, count in known), default=None)


def _whole(place: Place) -> tuple[object, ...]:
    return place[:3]


def _parts(place: Place) -> list[tuple[object, ...]]:
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
