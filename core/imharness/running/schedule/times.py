"""How long tasks take, by finished ones that are most alike: the one source of what tasks cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from pydantic import BaseModel, ConfigDict

from imharness.results.identity import digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec

FOLDER = "times"
KEPT = 9
"""How many finished tasks of one kind are remembered."""
SURE_S = 10.0
"""After about so many seconds of work a run is taken to be as fast as it was until then, beside earlier runs."""
SMALL_S = 0.5
"""What a component is worth in a step shows where the step takes longer than this, s."""
OWN, EARLIER = "own", "earlier"


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

    @classmethod
    def at(cls, place: Place) -> Kind:
        """Return the kind of a place, of which nothing is known."""
        track, step, limit, components = place
        return cls(track=track, step=step, limit=limit, components=components)

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
    """How long tasks take on one device, by those that finished in this run and in earlier ones.

    A task takes what those with the same step and components took. Where there are none, each component of it gives an
    estimate, of which the mean counts: the mean of its kinds in this step or, where it has none, the mean of the step
    times what the component is worth in other steps. Few kinds take most of the time, so medians over kinds would tell
    of a sum that is much too small. Nothing is known of a step without a finished task, and tasks on another number of
    images count for nothing. This run goes before earlier ones, whose times are scaled by how fast this one is.
    """

    device: str
    kinds: dict[Place, Kind] = field(default_factory=dict)
    changed: bool = False
    _own: dict[Place, Kind] = field(default_factory=dict)
    _levels: dict[str, _Levels] = field(default_factory=dict)
    _took: float = SURE_S
    _foretold: float = SURE_S

    def add(self, spec: TaskSpec, seconds: float, size: int | None = None) -> None:
        """Learn from a task of this run that took so many seconds and left so many bytes."""
        place = place_of(spec)
        before = self._level(EARLIER).estimate(place)
        if before is not None:
            self._took, self._foretold = self._took + seconds, self._foretold + before
        for kinds in (self.kinds, self._own):
            kinds.setdefault(place, Kind.at(place)).add(seconds, size)
        self._level(OWN).renew(place, self._own[place].seconds)
        if "bytes" in self._levels:
            self._levels["bytes"].renew(place, self.kinds[place].bytes)
        self.changed = True

    def learn(self, record: TaskRecord) -> None:
        """Learn from a record of this device."""
        if record.status == "done" and record.device == self.device:
            files = [file for file in (record.rows, record.arrays) if file is not None]
            self.add(record.spec, record.seconds, sum(file.size for file in files))

    def seconds(self, place: Place) -> float | None:
        """Return the expected seconds of a task, or None where its step is not known."""
        own, earlier = self._level(OWN), self._level(EARLIER)
        found = own.exact(place)
        if found is None and (before := earlier.exact(place)) is not None:
            found = before * self._speed
        if found is None:
            found = own.estimate(place)
        if found is None and (before := earlier.estimate(place)) is not None:
            found = before * self._speed
        return found

    def size(self, place: Place) -> float | None:
        """Return the bytes that a task is expected to leave in the store, or None."""
        if "bytes" not in self._levels:
            self._levels["bytes"] = _Levels({own: kind.bytes for own, kind in self.kinds.items()})
        return self._levels["bytes"].estimate(place)

    def known(self, part: tuple[object, ...]) -> bool:
        """Return whether a task of a step finished, or one with a component; see `step_of` and `components_of`."""
        return any(self._level(name).known(part) for name in (OWN, EARLIER))

    def keep(self, store: Store) -> None:
        """Write what was learnt into a store."""
        kinds = [self.kinds[place] for place in sorted(self.kinds, key=str)]
        file = TimesFile(device=self.device, kinds=kinds)
        store.replace(f"{FOLDER}/{digest(self.device)[:12]}.json", file)
        self.changed = False

    @property
    def _speed(self) -> float:
        """What a task of this run takes for each second of an earlier one."""
        return self._took / self._foretold

    def _level(self, name: str) -> _Levels:
        """Return the times of this run or of earlier ones; the latter stay what they are when first asked for."""
        if name not in self._levels:
            kinds = self._own if name == OWN else self.kinds
            self._levels[name] = _Levels({place: list(kind.seconds) for place, kind in kinds.items()})
        return self._levels[name]


class _Levels:
    """Medians by kind, and the sums and numbers of them by step and component, and by step."""

    def __init__(self, kinds: Mapping[Place, Sequence[float]]) -> None:
        self._kinds = dict[Place, float]()
        self._parts = dict[tuple[object, ...], tuple[float, int]]()
        self._steps = defaultdict[tuple[object, ...], set[tuple[object, ...]]](set)
        for place, values in kinds.items():
            self.renew(place, values)

    def renew(self, place: Place, values: Sequence[float]) -> None:
        """Take in what a kind has become. What it costs does not depend on the number of kinds."""
        if not values:
            return
        before, usual = self._kinds.get(place), median(values)
        self._kinds[place] = usual
        whole = step_of(place)
        for part in (whole, *((*whole, label) for label in place[3])):
            total, count = self._parts.get(part, (0.0, 0))
            self._parts[part] = (total + usual, count + 1) if before is None else (total + usual - before, count)
        for component in components_of(place):
            self._steps[component].add(whole)

    def known(self, part: tuple[object, ...]) -> bool:
        return part in self._parts or part in self._steps

    def exact(self, place: Place) -> float | None:
        """Return the median of a kind."""
        return self._kinds.get(place)

    def estimate(self, place: Place) -> float | None:
        """Return what a task of a kind takes, by those that are most alike."""
        if place in self._kinds:
            return self._kinds[place]
        whole = step_of(place)
        if whole not in self._parts:
            return None
        usual = self._mean(whole)
        known = [self._of(whole, usual, component) for component in components_of(place) if component in self._steps]
        return sum(known) / len(known) if known else usual

    def _of(self, step: tuple[object, ...], usual: float, component: tuple[object, ...]) -> float:
        """Return the mean of a component in a step, or what its worth in other steps makes of the mean of this one."""
        if step in self._steps[component]:
            return self._mean((*step, component[-1]))
        here = sum(self._mean((*other, component[-1])) for other in self._steps[component])
        there = sum(self._mean(other) for other in self._steps[component])
        return usual * (here + SMALL_S) / (there + SMALL_S)

    def _mean(self, part: tuple[object, ...]) -> float:
        total, count = self._parts[part]
        return max(total / count, 0.0)


def step_of(place: Place) -> tuple[object, ...]:
    """Return the step of a kind: track, step and number of images."""
    return place[:3]


def components_of(place: Place) -> list[tuple[object, ...]]:
    """Return the components of a kind, each with its track and number of images."""
    return [(place[0], place[2], label) for label in place[3]]


def learnt_times(store: Store, device: str) -> Times:
    """Return what a store remembers of a device."""
    for file in store.documents(FOLDER, TimesFile):
        if file.device == device:
            return Times(device, {kind.place: kind for kind in file.kinds})
    return Times(device)
