"""A pool of workers on a Ray cluster, as long-lived actors that keep what they have built.

The pool grows and shrinks with the cluster: it asks for as many workers as the tasks can use and the nodes have room
for, and for a few more, so that an autoscaler adds nodes. Tasks wait here until a worker is ready. A worker whose tasks
are short gets several at once, and after a while gives back those that it has not begun.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Literal

from pydantic import ValidationError

from imharness.commands import console
from imharness.errors import DamagedError, HarnessError, UsageError
from imharness.extending import Store, TaskResult, TaskSpec, WorkerConfig, explain, folders
from imharness_ray.actor import given_to
from imharness_ray.cluster import Cluster
from imharness_ray.parity import facts, packages
from imharness_ray.remote_worker import ABSENT, AHEAD_S, key_of_note, note
from imharness_ray.settings import RaySettings

TICK_S = 0.5
"""The time between two looks at the cluster and at tasks that take too long, s."""
SPARE = 4
"""The pool requests more workers than there is room for: one more for each `SPARE` of these, and at least one more."""
TRIES = 3
"""A node on which so many workers ended before they were ready gets no further one."""
LOOK = 64
"""The number of waiting tasks, or of free workers, whose components are compared."""
AT_ONCE = 32
"""The most tasks that a worker gets at once while its tasks are short."""
HEAD_START_S = 60.0
"""The longest time for which the first worker of each node starts alone; others would slow it down, s."""
LONGEST_LOOK_S = 5.0
"""The time between two looks counts at most so long: if more has passed, this process was stopped, too, s."""
PATIENCE_S, REMIND_S = 20.0, 600.0
"""How long there is no room for any worker until a warning says so, and until it is repeated, s."""


@dataclass(eq=False)
class _Worker:
    """A worker on the cluster.

    Attributes:
        actor: Ray's handle of it.
        answer: the key of a record that it writes into its store when it starts, to show that this is the store of the
            run. "" once the record was seen and removed: then the worker is ready.
        began: when it wrote that record, by its own clock; older records are not of this run.
        node: the id of its node, "" until it is known.
        host: the name of its node.
        tasks: the tasks that it has, by key, in the order in which it computes them.
        since: when it got these tasks, by this process's monotonic clock, s.
        spent: how long it has worked on these tasks, as far as this process saw it, s.
        quick: whether its last tasks took less than `AHEAD_S` each; then it gets several at once.
        built: the labels of the components that it has built.
    """

    actor: Any
    answer: str = ""
    began: str = ""
    node: str = ""
    host: str = ""
    tasks: dict[str, TaskSpec] = field(default_factory=dict)
    since: float = 0.0
    spent: float = 0.0
    quick: bool = False
    built: set[str] = field(default_factory=set)

    def lacks(self, spec: TaskSpec) -> int:
        """Return how many components of a task it has not built."""
        return len({ref.label for ref in spec.components.values()} - self.built)


class RayWorkers:
    """The `Executor` on Ray; `settings` are the fields of `RaySettings`."""

    def __init__(self, workers: Sequence[WorkerConfig], time_limit_s: float, /, **settings: Any) -> None:
        try:
            self._settings = RaySettings(**settings)
        except ValidationError as error:
            raise UsageError(explain(error, RaySettings)) from None
        config = workers[0]
        if self._settings.gpus_per_worker:
            config = replace(config, device="cuda:0")
        elif config.device != "cpu":
            raise UsageError(
                "workers on Ray have no GPU unless they ask for one; give --gpus-per-worker 1, or --device cpu"
            )
        self._limit = time_limit_s
        self._tasks: dict[str, TaskSpec] = {}
        self._workers, self._free, self._busy = set[_Worker](), dict[_Worker, None](), dict[str, _Worker]()
        self._left_out: dict[str, str] = {}  # node -> the reason
        self._crashes: Counter[str] = Counter()  # by node, since a worker was ready
        self._events: SimpleQueue[tuple[_Worker, str, Future[Any]]] = SimpleQueue()
        self._store, self._greeting = Store(config.store), ""
        self._looked, self._room, self._waits_since = time.monotonic(), 0, float("inf")
        self._nodes, self._all_start = 0, self._looked + HEAD_START_S
        self._cluster = Cluster(self._settings)
        try:
            names = packages()
            self._greeting = note(self._store, uuid.uuid4().hex)
            self._arguments: dict[str, Any] = {
                "config": given_to(config),
                "wanted": facts(names),
                "packages": names,
                "greeting": self._greeting,
                "folders": [str(folder) for folder in folders()],
            }
            self._look()
        except BaseException:
            self.close()
            raise

    @property
    def idle(self) -> int:
        """How many more tasks may be submitted: enough of them wait here for each worker to get those that suit it."""
        per_worker = 1 + (AT_ONCE if any(worker.quick for worker in self._workers) else 1)
        return max(0, per_worker * max(1, self._room) + 1 - len(self._tasks) - len(self._busy))

    @property
    def waiting(self) -> list[str]:
        """The keys of the tasks that no worker has, and of those behind the first task of a worker."""
        return [*self._tasks, *(key for worker in self._workers for key in islice(worker.tasks, 1, None))]

    def submit(self, key: str, spec: TaskSpec) -> None:
        self._tasks[key] = spec
        if self._free:
            self._give(min(islice(self._free, LOOK), key=lambda worker: worker.lacks(spec)), [key])

    def reports(self, seconds: float) -> Iterator[TaskResult]:
        passed = time.monotonic() - self._looked
        if passed > TICK_S:
            self._look()
            yield from self._too_late(min(passed, LONGEST_LOOK_S))
        self._share()
        self._grow()
        for worker, what, future in self._happened(seconds):
            if worker in self._workers:
                yield from self._taken(worker, what, future)

    def close(self) -> None:
        for worker in list(self._workers):
            self._drop(worker)
        if self._greeting:
            self._store.forget(self._greeting)
        self._cluster.close()

    def _happened(self, seconds: float) -> Iterator[tuple[_Worker, str, Future[Any]]]:
        """Yield the answers of workers that are there, after waiting up to so many seconds for the first."""
        with suppress(Empty):
            yield self._events.get(timeout=seconds)
            while True:
                yield self._events.get_nowait()

    def _taken(self, worker: _Worker, what: str, future: Future[Any]) -> Iterator[TaskResult]:
        """Take the answer of a worker to the call `what` ("where", "open" or "run"), or its end, and give it tasks.

        Yields the results of tasks.
        """
        error, opened = future.exception(), not worker.answer
        if error is not None:
            if worker.tasks:
                self._doubt(worker.node)
                yield from self._interrupted(worker, "died", f"the worker on {worker.host} ended: {_line(error)}")
                return
            self._drop(worker)
            if not opened:
                self._crashed(worker, error)
        elif what == "where":
            worker.node, worker.host = future.result()
            if opened and not worker.tasks:
                self._next(worker)
        elif what == "open":
            self._opened(worker, future.result())
        else:
            yield from self._ran(worker, future.result())

    def _ran(self, worker: _Worker, reports: Sequence[tuple[str, str, str]]) -> Iterator[TaskResult]:
        """Yield the results of the tasks that a worker began; the others wait again."""
        worker.quick = (time.monotonic() - worker.since) / len(reports) < AHEAD_S
        absent = next((line for _, status, line in reports if status == ABSENT), "")
        results = {key: TaskResult(key, status, line) for key, status, line in reports if status != ABSENT}  # type: ignore[arg-type]
        self._wait_again(worker, results)
        if absent:
            self._leave_out(worker, absent)
        else:
            self._next(worker)
        yield from results.values()

    def _interrupted(self, worker: _Worker, status: Literal["failed", "died"], line: str) -> Iterator[TaskResult]:
        """Drop a worker that ended or was too slow.

        Its tasks with a record of this run have ended. The first one without a record was interrupted and gets `status`
        and `line`; those behind it were not begun, and wait again.
        """
        results = dict[str, TaskResult]()
        for key in worker.tasks:
            ended = self._ended(worker, key)
            results[key] = ended or TaskResult(key, status, line)
            if ended is None:
                break
        self._wait_again(worker, results)
        self._drop(worker)
        yield from results.values()

    def _ended(self, worker: _Worker, key: str) -> TaskResult | None:
        """Return the result of a task from its record in the store; None if this worker has written none."""
        with suppress(DamagedError):
            record = self._store.record(key)
            if record is not None and record.started >= worker.began:
                return TaskResult.of(record)
        return None

    def _opened(self, worker: _Worker, reason: str) -> None:
        """Take a new worker into use. `reason`: why it cannot work, "" if it can.

        Its node is left out for that reason, or if this store does not have the record that the worker wrote.
        """
        if not reason:
            record = self._store.record(worker.answer)
            if record is None:
                where = self._arguments["config"]["store"]
                reason = f"the store {where} is a different one there: this run cannot see what that node wrote"
            else:
                worker.began = record.started
        if reason:
            self._leave_out(worker, reason)
            return
        self._forget(worker)
        self._crashes.clear()
        self._all_start = 0.0
        self._next(worker)

    def _next(self, worker: _Worker) -> None:
        """Give a worker the waiting tasks for which it lacks fewest components; of equals, the longest waiting."""
        self._free[worker] = None
        if self._tasks:
            working = len(self._free) + sum(bool(other.tasks) for other in self._workers)
            many = min(AT_ONCE, len(self._tasks) // working) if worker.quick else 1
            near = sorted(islice(self._tasks.items(), LOOK), key=lambda task: worker.lacks(task[1]))
            self._give(worker, [key for key, _ in near[: max(1, many)]])

    def _share(self) -> None:
        """Give free workers the tasks that wait again because other workers did not begin them."""
        for worker in list(self._free):
            if self._tasks:
                self._next(worker)

    def _give(self, worker: _Worker, keys: Sequence[str]) -> None:
        """Send some of the waiting tasks to a free worker."""
        del self._free[worker]
        worker.since, worker.spent, worker.tasks = time.monotonic(), 0.0, {key: self._tasks.pop(key) for key in keys}
        for key, spec in worker.tasks.items():
            worker.built |= {ref.label for ref in spec.components.values()}
            self._busy[key] = worker
        self._call(worker, "run", tasks=[(key, spec.model_dump_json()) for key, spec in worker.tasks.items()])

    def _wait_again(self, worker: _Worker, finished: Collection[str]) -> None:
        """Take all tasks from a worker; those without a known result wait again, before all others."""
        for key in worker.tasks:
            self._busy.pop(key)
        again = {key: spec for key, spec in worker.tasks.items() if key not in finished}
        self._tasks, worker.tasks = {**again, **self._tasks}, {}

    def _call(self, worker: _Worker, what: str, **arguments: Any) -> None:
        """Call a method of a worker; its answer becomes an event."""
        then = lambda future: self._events.put((worker, what, future))  # noqa: E731
        self._cluster.call(getattr(worker.actor, what), then, **arguments)

    def _grow(self) -> None:
        """Start as many workers as can be used now; until the first is ready, one for each node."""
        wanted = len(self._tasks) + len(self._busy)
        most = self._settings.workers or wanted
        room = self._room + max(1, self._room // SPARE) if time.monotonic() > self._all_start else max(1, self._nodes)
        for _ in range(len(self._workers), min(wanted, most, room)):
            name = uuid.uuid4().hex
            worker = _Worker(self._cluster.start(self._left_out), key_of_note(name))
            self._workers.add(worker)
            self._call(worker, "where")
            self._call(worker, "open", **self._arguments, name=name)

    def _look(self) -> None:
        """See what the cluster has room for. Raises `HarnessError` if every node is left out."""
        nodes = [node for node in self._cluster.nodes() if node.room]
        good = [node for node in nodes if node.id not in self._left_out]
        self._nodes, self._room, self._looked = len(good), sum(node.room for node in good), time.monotonic()
        if nodes and not good and not any(s.node and s.node not in self._left_out for s in self._workers):
            reasons = "; ".join(f"{node.host} ({node.id[:8]}): {self._left_out[node.id]}" for node in nodes[:4])
            raise HarnessError(f"no node of the cluster can compute: {reasons}")
        if not nodes and not self._cluster.grows:
            raise HarnessError(f"this machine has no room for a worker on Ray, which needs {self._cluster.needs}")
        self._waits_since = float("inf") if nodes else min(self._waits_since, self._looked)
        if self._looked - self._waits_since > PATIENCE_S:
            self._waits_since = self._looked + REMIND_S
            console.warn(f"no node of the cluster has room for a worker: {self._cluster.needs}; waiting for one")

    def _doubt(self, node: str) -> None:
        """Ask the free workers on a node whether they are still there, before one gets a task."""
        for worker in [worker for worker in self._free if worker.node == node]:
            del self._free[worker]
            self._call(worker, "where")

    def _too_late(self, passed: float) -> Iterator[TaskResult]:
        """Drop workers whose tasks took longer than the time limit; `passed`: the time since the last look, s."""
        for worker in [worker for worker in self._workers if worker.tasks]:
            worker.spent += min(passed, time.monotonic() - worker.since)
            if worker.spent > self._limit + AHEAD_S:
                yield from self._interrupted(worker, "failed", f"took longer than the time limit of {self._limit:g} s")

    def _leave_out(self, worker: _Worker, reason: str) -> None:
        """Start no further worker on the node of this one, and say why."""
        self._drop(worker)
        if worker.node not in self._left_out:
            self._left_out[worker.node] = reason
            console.warn(f"node {worker.host} ({worker.node[:8]}) is left out: {reason}")

    def _crashed(self, worker: _Worker, error: BaseException) -> None:
        """Count that a worker ended before it was ready; after `TRIES` of them its node is left out."""
        self._crashes[worker.node] += 1
        if self._crashes[worker.node] < TRIES:
            return
        reason = f"workers end before they are ready: {_line(error)}"
        if not worker.node:
            raise HarnessError(reason)
        if worker.node in {node.id for node in self._cluster.nodes()}:
            self._leave_out(worker, reason)

    def _forget(self, worker: _Worker) -> None:
        """Remove the record that a worker wrote when it started."""
        if worker.answer:
            self._store.forget(worker.answer)
            worker.answer = ""

    def _drop(self, worker: _Worker) -> None:
        """End a worker."""
        self._workers.discard(worker)
        self._free.pop(worker, None)
        self._cluster.end(worker.actor)
        self._forget(worker)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
