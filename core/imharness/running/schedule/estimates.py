"""What tasks cost: how long they take, by finished and running ones that are most alike, and what is left of a run.

This is the one source of estimates: order, shards, budgets, progress and `--dry-run` ask here.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from pydantic import BaseModel, ConfigDict

from imharness.planning.plan import Task
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
RATE_S = 120.0
"""The rate of a run is that of its last seconds."""
OVERHEADS = 99
"""Of so many tasks, the last ones, it counts how much longer they took a worker than their records say."""
LONGER = 0.5
"""A task goes on for at least this part of the time that has passed since it started or told how far it is."""
SURE = 2.0
"""An estimate with guesses is given if it is at most so many times the one without."""
TELLING_S = 1.0
"""A running task tells what those like it take when it has run for so long, s."""


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
    _supposed: set[Place] = field(default_factory=set)
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
        self._supposed.discard(place)
        self._level(OWN).renew(place, self._own[place].seconds)
        if "bytes" in self._levels:
            self._levels["bytes"].renew(place, self.kinds[place].bytes)
        self.changed = True

    def learn(self, record: TaskRecord, prepared_s: float = 0.0) -> None:
        """Learn from a record of this device; `prepared_s`: see `Estimate.prepared`."""
        if record.status == "done" and record.device == self.device:
            files = [file for file in (record.rows, record.arrays) if file is not None]
            self.add(record.spec, record.seconds - prepared_s, sum(file.size for file in files))

    def seconds(self, place: Place) -> float | None:
        """Return the expected seconds of a task, or None where its step is not known."""
        own, earlier = self._level(OWN), self._level(EARLIER)
        for ask in (_Levels.exact, _Levels.estimate):
            if (found := ask(own, place)) is not None:
                return found
            if (before := ask(earlier, place)) is not None:
                return before * self._speed
        return None

    def suppose(self, running: Mapping[Place, Sequence[float]]) -> None:
        """Take running tasks to last so many seconds, in place of what was supposed before; finished ones go first."""
        for place in self._supposed - running.keys():
            self._level(OWN).renew(place, [])
        self._supposed = running.keys() - self._own.keys()
        for place in self._supposed:
            self._level(OWN).renew(place, running[place])

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
        self._worth = dict[tuple[object, ...], tuple[float, float]]()
        self._said = defaultdict[tuple[object, ...], dict[str, float | None]](dict)
        """Step -> component -> what `_of` said of it since a kind was renewed."""
        for place, values in kinds.items():
            self.renew(place, values)

    def renew(self, place: Place, values: Sequence[float]) -> None:
        """Take in what a kind has become; without values it is not known any more. Other kinds are not looked at."""
        before, whole = self._kinds.pop(place, None), step_of(place)
        if values:
            self._kinds[place] = median(values)
        more = self._kinds.get(place, 0.0) - (before or 0.0)
        change = len(self._kinds.keys() & {place}) - (before is not None)
        for part in (whole, *((*whole, label) for label in place[3])):
            total, count = self._parts.pop(part, (0.0, 0))
            if count + change:
                self._parts[part] = total + more, count + change
        self._worth.clear()
        self._said.clear()
        for component in components_of(place):
            steps = self._steps[component]
            (steps.add if (*whole, component[-1]) in self._parts else steps.discard)(whole)
            if not steps:
                del self._steps[component]

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
        usual, said = self._mean(whole), self._said[whole]
        for label in place[3]:
            if label not in said:
                said[label] = self._of(whole, usual, (place[0], place[2], label))
        known = [own for label in place[3] if (own := said[label]) is not None]
        return sum(known) / len(known) if known else usual

    def _of(self, step: tuple[object, ...], usual: float, component: tuple[object, ...]) -> float | None:
        """Return the mean of a component in a step, or what its worth in other steps makes of the mean of this one.

        None is said of a component that is in no step.
        """
        if component not in self._steps:
            return None
        if step in self._steps[component]:
            return self._mean((*step, component[-1]))
        if component not in self._worth:
            others = self._steps[component]
            here = sum(self._mean((*other, component[-1])) for other in others)
            self._worth[component] = here, sum(self._mean(other) for other in others)
        here, there = self._worth[component]
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


def chains(tasks: Mapping[str, Task], seconds: Mapping[str, float]) -> dict[str, float]:
    """Return for each task the seconds from its start to the end of the longest chain of tasks that need it."""
    after = dict.fromkeys(tasks, 0.0)
    for key in reversed(list(tasks)):  # every task stands behind those it needs
        whole = after[key] = after[key] + seconds[key]
        for need in tasks[key].spec.needs.values():
            if need in after:
                after[need] = max(after[need], whole)
    return after


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

    Every task stands behind those it needs. `running`: key -> seconds that a task still runs for. `overhead_s`: what
    a task takes a worker beyond the seconds in its record. `places`: key -> `place_of`, where that was asked before.
    """
    seconds, unknown, on, found = dict[str, float](), 0, running or {}, dict[Place, float | None]()
    for key, task in tasks.items():
        place = places[key] if places else place_of(task.spec)
        if place not in found:
            found[place] = times.seconds(place)
        usual = found[place]
        unknown += usual is None
        seconds[key] = on[key] if key in on else 0.0 if usual is None else usual + overhead_s
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
        self._told = dict[str, list[tuple[float, float]]]()
        self._again = set[str]()
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
        self._told.pop(key, None)
        self._again.discard(key)
        self._recent.append(time.monotonic())

    def lasted(self, wall_s: float, recorded_s: float) -> None:
        """Take in how long a task took its worker, and how long by its record."""
        self._overheads.append(max(wall_s - recorded_s, 0.0))

    def told(self, key: str, share: float, gone_s: float) -> None:
        """Take in which share of a running task is computed after so many seconds; a smaller one starts a new part."""
        told = self._told.setdefault(key, [])
        if told and share < told[-1][1]:
            told.clear()
            self._again.add(key)
        if not told or share > told[-1][1]:
            self._told[key] = [*told[:1], (gone_s, share)]

    def prepared(self, key: str) -> float:
        """Return the seconds for which a task made data and loaded libraries, which later tasks find ready; else 0."""
        told = self._told.get(key, [])
        known = len(told) > 1 and key not in self._again
        return max(told[0][0] - told[0][1] * _pace(told), 0.0) if known else 0.0

    def left(self, running: Mapping[str, float]) -> tuple[float, bool] | None:
        """Return the seconds that are left, and whether they are a lower bound; None while no step is known.

        Nobody knows how long a task goes on that has told nothing and has run for longer than those like it. Where the
        guess, that it takes half as long again, makes most of what is left, the rest is given as a bound.

        `running`: key -> seconds that it has been running for.
        """
        self._times.suppose({})
        overhead, on = median(self._overheads) if self._overheads else 0.0, dict[str, float]()
        paces, guesses = defaultdict[Place, list[float]](list), defaultdict[Place, list[float]](list)
        unsure = set[str]()
        for key in running.keys() & self._waiting.keys():
            place, gone = self._places[key], running[key]
            usual, told = self._times.seconds(place), self._told.get(key, [])
            heard = told[-1][0] if told else 0.0
            if len(told) > 1:
                pace, share = _pace(told), told[-1][1]
                on[key] = max(heard + (1 - share) * pace - gone, LONGER * (gone - heard))
                paces[place].append(pace)
                continue
            on[key] = max((usual or 0.0) + overhead - gone, LONGER * (gone - heard))
            if gone >= TELLING_S and (usual is None or gone > usual):
                guesses[place].append(gone + on[key])
                unsure.add(key)
        known = self._left(paces, {key: 0.0 if key in unsure else own for key, own in on.items()}, overhead)
        if not unsure:
            return None if known is None else (known.wall_s(self._workers), known.unknown > 0)
        whole = self._left({place: [*guesses[place], *paces[place]] for place in {*guesses, *paces}}, on, overhead)
        if known is None or whole is None:
            return None
        if whole.wall_s(self._workers) > SURE * known.wall_s(self._workers):
            return known.wall_s(self._workers), True
        return whole.wall_s(self._workers), whole.unknown > 0

    def _left(
        self, supposed: Mapping[Place, Sequence[float]], on: Mapping[str, float], overhead_s: float
    ) -> Left | None:
        """Return what is left if running tasks take what is supposed; `on`: key -> seconds that they still run for."""
        self._times.suppose(supposed)
        return left_of(self._waiting, self._times, running=on, overhead_s=overhead_s, places=self._places)

    def rate(self) -> float | None:
        """Return how many tasks ended per minute lately, or None before the second one."""
        now = time.monotonic()
        while self._recent and now - self._recent[0] > RATE_S:
            self._recent.popleft()
        if len(self._recent) < 2:
            return None
        return 60 * len(self._recent) / max(now - self._recent[0], 1e-3)


def _pace(told: Sequence[tuple[float, float]]) -> float:
    """Return the seconds that a task takes without what it prepares, by what it told first and last of its share."""
    (begun, first), (heard, share) = told[0], told[-1]
    return (heard - begun) / (share - first)


def bytes_of(tasks: Iterable[Task], times: Times) -> float:
    """Return the bytes that tasks will leave in a store; those of which nothing is known count as the mean."""
    sizes = [times.size(place_of(task.spec)) for task in tasks]
    known = [size for size in sizes if size is not None]
    return sum(known) * len(sizes) / max(len(known), 1)
