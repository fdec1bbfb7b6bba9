"""Where tasks are computed: what an executor is, how its workers are set up, and how to open one.

A package offers an executor by an entry point in the group ``imharness.executors``: a name, and an object or class with
the attributes of `ExecutorOffer`. Workers make a `Worker` from a `WorkerConfig`.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from imharness.errors import PluginError, StoreError, UsageError, unknown_name
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.results.version import DISTRIBUTION
from imharness.running.logs import keeping
from imharness.running.memory import OUT_OF_MEMORY
from imharness.running.numerics import fresh_numerics
from imharness.running.shards import task_of

if TYPE_CHECKING:
    from pydantic import BaseModel

    from imharness.components.provenance import Registered
    from imharness.contracts.track import Progress

GROUP = "imharness.executors"
ON_THIS_MACHINE = IN_PROCESS, LOCAL = ("in-process", "local")
SHARE_S = 1.0
"""How often a task tells at most how far it is, s."""


@dataclass(frozen=True)
class TaskResult:
    """What happened to a task.

    `status` is "done", "failed" (the record says why), "died" (the worker ended, and the task may be tried again) or
    "store" (the store cannot be read or written, and the run must stop). `line` says in one line what happened.
    """

    key: str
    status: Literal["done", "failed", "died", "store"]
    line: str = ""

    @classmethod
    def of(cls, record: TaskRecord) -> TaskResult:
        """Return the result that a record states."""
        failure = record.failure
        line = f"{failure.who}: {failure.error}: {failure.message}" if failure else ""
        return cls(record.key, record.status, line)


class Executor(Protocol):
    """Computes tasks that do not need each other.

    It may have two attributes: `waiting`, the keys of submitted tasks that no worker has started, and `shares`, which
    maps the key of a running task to the share of it that is computed, in (0, 1], as far as its step has told. If not
    every worker computes every track, it has a method `idle_for`: track -> how many of its tasks can be submitted now.
    """

    @property
    def idle(self) -> int:
        """How many tasks can be submitted now."""

    def submit(self, key: str, spec: TaskSpec) -> None:
        """Start a task; this is only called while `idle` is not 0."""

    def reports(self, seconds: float) -> Iterable[TaskResult]:
        """Yield the results of tasks that have ended, waiting at most `seconds` for the first."""

    def close(self) -> None:
        """End all workers; unfinished tasks are lost."""


class ExecutorOffer(Protocol):
    """What an entry point names. Its module is imported for help texts, so it must not import torch or a framework."""

    @property
    def settings(self) -> type[BaseModel] | None:
        """The settings, or None; each field becomes an option of the commands that compute."""

    def load(self) -> Callable[..., Executor]:
        """Return a function ``(workers, time_limit_s, /, **settings)`` that returns an `Executor`.

        It is called before anything runs, and raises `Unavailable` if something that it needs is not on this machine.
        """


@dataclass(frozen=True)
class Preparation:
    """What a worker gets in addition to the installed components.

    `end_task(failed)` is called after each task; it returns notes for the task's record, and an exception makes the
    task fail. `close` is called when a worker in this process ends.
    """

    components: Sequence[Registered] = ()
    end_task: Callable[[bool], Sequence[str]] = lambda failed: ()
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class WorkerConfig:
    """How a worker is set up; it can be pickled and sent to another machine.

    `prepare` names functions as ``module:function``, each with a JSON object. The worker imports each function and
    calls it with the object; it returns a `Preparation`. `store` is an absolute address, `secret` the seed of the
    secret split, if any. `cpu_tracks` are the tracks that workers on the CPU compute, while others compute all others;
    None: every worker computes every track.
    """

    store: str
    device: str
    batch_size: int
    prepare: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    secret: str = field(default="", repr=False)
    cpu_tracks: frozenset[str] | None = None

    def takes(self, track: str) -> bool:
        """Return whether the worker computes tasks of a track."""
        return self.cpu_tracks is None or (self.device == "cpu") == (track in self.cpu_tracks)


def idle_for(executor: Executor, track: str) -> int:
    """Return how many tasks of a track can be submitted to an executor now."""
    return int(getattr(executor, "idle_for", lambda _: executor.idle)(track))


class Worker:
    """Computes tasks in this process, which it sets up by its configuration."""

    def __init__(self, config: WorkerConfig) -> None:
        import torch

        from imharness.components.registry import installed
        from imharness.results.store import Store
        from imharness.running.context import BuildCache

        self._prepared: list[Preparation] = [
            importlib.metadata.EntryPoint("prepare", name, GROUP).load()(facts) for name, facts in config.prepare
        ]
        registry = installed()
        for prepared in self._prepared:
            registry = registry.superseded_by(prepared.components)
        self.config, device, store = config, torch.device(config.device), Store(config.store)
        if device.type == "cuda":
            torch.cuda.set_device(device)  # "cuda" without a number then means this device
        self.cache = BuildCache(registry, store, device, config.batch_size, self._end_task, config.secret)

    def run(self, key: str, spec: TaskSpec, tell: Callable[[float], None] = lambda share: None) -> TaskResult:
        """Compute a task, or a shard of one (its key says which), and store it with a log of what was printed.

        One thread computes, so that neither the number of workers and cores nor earlier tasks change a result. `tell`
        is called now and then with the share of the task that is computed, in (0, 1].
        """
        from imharness.running.context import run_task

        try:
            with fresh_numerics(), keeping(self.cache.store, task_of(key)):
                record = run_task(self.cache, key, spec, _sharing(tell))
        except StoreError as error:
            return TaskResult(key, "store", str(error))
        except MemoryError:
            return TaskResult(key, "failed", OUT_OF_MEMORY)
        return TaskResult.of(record) if record else TaskResult(key, "done")

    def close(self) -> None:
        """End what the preparation started."""
        for prepared in self._prepared:
            prepared.close()

    def _end_task(self, failed: bool) -> list[str]:
        return [note for prepared in self._prepared for note in prepared.end_task(failed)]


def _sharing(tell: Callable[[float], None]) -> Progress:
    """Return what a step is given to tell its progress by, which passes shares on from time to time."""
    last_shared = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last_shared
        now = time.monotonic()
        if now - last_shared >= SHARE_S and 0 < done <= total:
            last_shared = now
            tell(done / total)

    return progress


def find_executor(name: str) -> Callable[..., Executor]:
    """Return the function that opens an executor; raises `UsageError` for an unknown name."""
    names = executor_names()
    if name not in names:
        raise UsageError(unknown_name(f"no executor is called {name!r}", name, names))
    try:
        return executor_offer(name).load()
    except (ImportError, AttributeError) as error:
        raise PluginError(f"executor {name} cannot be loaded: {error}") from error


def executor_names() -> list[str]:
    """Return the sorted names of all executors, without importing any of them."""
    return sorted({point.name for point in importlib.metadata.entry_points(group=GROUP)})


def executor_offer(name: str) -> ExecutorOffer:
    """Return what the entry point of an executor names; raises `PluginError` if it cannot be used."""
    points = importlib.metadata.entry_points(group=GROUP, name=name)
    (point, *_) = sorted(points, key=lambda candidate: candidate.dist is None or candidate.dist.name != DISTRIBUTION)
    try:
        offer: ExecutorOffer = point.load()
    except (ImportError, AttributeError) as error:
        raise PluginError(f"executor {name} ({point.value}) cannot be loaded: {error}") from error
    for wanted in ("settings", "load"):
        if not hasattr(offer, wanted):
            raise PluginError(f"executor {name} ({point.value}) has no attribute {wanted}; see docs/howto/extend.md")
    return offer


def open_executor(
    store: str | Path,
    *,
    name: str = LOCAL,
    devices: Sequence[str] = ("auto",),
    workers: int | None = None,
    batch_size: int = 16,
    time_limit_s: float = float("inf"),
    prepare: Sequence[tuple[str, Mapping[str, Any]]] = (),
    secret: str = "",
    settings: Mapping[str, Any] | None = None,
    sharing: Mapping[str, int] | None = None,
) -> Executor:
    """Return an executor whose workers write into a store.

    Args:
        store: the address of the store.
        name: the name of the executor.
        devices: names as for `harness run --device`; the workers are spread evenly over them.
        workers: None means one per GPU, or one per core (at most 8) on the CPU; 0 computes in this process.
        batch_size: the number of images that a step processes at once.
        time_limit_s: a task that takes longer, in seconds, fails if the executor can end it.
        prepare, secret: see `WorkerConfig`.
        settings: keyword arguments of the executor itself.
        sharing: where executors of `ON_THIS_MACHINE` compute each track if `devices` are ``auto``; see `placed`.
    """
    from imharness.results.storage import absolute
    from imharness.running.placement import placed

    options, here = dict(settings) if settings and workers != 0 else {}, name in ON_THIS_MACHINE
    per_gpu = options.pop("workers_per_gpu", None) if here else None
    placement = placed(devices, sharing or {}, workers=workers, workers_per_gpu=per_gpu)
    if placement.workers_per_gpu is not None and name == LOCAL and workers != 0:
        options["workers_per_gpu"] = placement.workers_per_gpu
    config = WorkerConfig(absolute(store), "", batch_size, tuple(prepare), secret, placement.cpu_tracks)
    configs = [replace(config, device=device) for device in placement.devices]
    return find_executor(IN_PROCESS if workers == 0 else name)(configs, time_limit_s, **options)
