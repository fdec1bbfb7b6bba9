"""Workers on this machine: this process, or processes on each device with one thread each.

CPU workers are forked from a server that has imported the harness once. GPU workers are not, because CUDA does not
survive a fork, and Windows has no fork: they import it themselves. Parent and worker exchange JSON over a pipe. A
worker that dies is replaced; one that takes too long, or is stopped, is ended and its task fails. A worker whose parent
has ended ends at once.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from imharness.errors import UsageError
from imharness.results.tasks import TaskSpec
from imharness.running.devices import NO_ROOM, LocalSettings, with_room
from imharness.running.executor import TaskResult, Worker, WorkerConfig
from imharness.running.memory import keep_freed_memory, why_ended

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

_starting = threading.Lock()
PREPARED = "imharness.running.prepared"
FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"
"""Lets PyTorch compute on the CPU what it cannot on ``mps``; it reads the variable when it is loaded."""
READY = "ready"
"""The first message of a worker; the time limit of its first task starts with it."""
START_S = 600.0
"""The longest that a worker may take until it is ready, s."""
LONGEST_LOOK_S = 5.0
"""The time between two looks at the workers counts up to this, s; in a longer gap this process was stopped itself."""


class InProcess:
    """Computes tasks in this process, one after the other, for debugging. A task that takes too long is not ended."""

    settings = None

    @classmethod
    def load(cls) -> type[InProcess]:
        return cls

    def __init__(self, workers: Sequence[WorkerConfig], time_limit_s: float) -> None:
        configs = workers[:1]
        if workers[0].cpu_tracks is not None:  # some tracks go to a GPU, the others to the CPU: one worker of each
            gpu = [config for config in workers if config.device != "cpu"][:1]
            cpu = [config for config in workers if config.device == "cpu"][:1]
            configs = gpu + cpu
        self._workers = [Worker(config) for config in configs]
        self._next: tuple[str, TaskSpec] | None = None

    @property
    def idle(self) -> int:
        return 0 if self._next else 1

    def submit(self, key: str, spec: TaskSpec) -> None:
        self._next = key, spec

    def reports(self, seconds: float) -> list[TaskResult]:
        now, self._next = self._next, None
        return [worker.run(*now) for worker in self._workers if worker.config.takes(now[1].track)] if now else []

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


@dataclass
class _Process:
    """A worker process and the task that it works on."""

    process: BaseProcess
    pipe: Connection
    config: WorkerConfig
    key: str = ""
    spent: float = 0.0
    ready: bool = False


class LocalWorkers:
    """A pool of worker processes. A worker sends which share of its task is done, and at last the result."""

    settings = LocalSettings

    @classmethod
    def load(cls) -> type[LocalWorkers]:
        return cls

    def __init__(self, configs: Sequence[WorkerConfig], /, time_limit_s: float, **settings: Any) -> None:
        devices, lines = with_room([config.device for config in configs], **settings)
        for line in lines:
            logging.getLogger(__name__).warning(line)
        if configs[0].cpu_tracks is not None and set(devices) == {"cpu"}:
            raise UsageError("; ".join(lines) + NO_ROOM)
        placed = [replace(configs[0], device=device) for device in devices]
        if any(config.device == "mps" for config in placed):
            os.environ.setdefault(FALLBACK, "1")
        self._limit, self._looked = time_limit_s, time.monotonic()
        self.shares = dict[str, float]()
        self._workers = [self._start(config) for config in placed]

    @property
    def idle(self) -> int:
        return sum(not worker.key for worker in self._workers)

    def idle_for(self, track: str) -> int:
        return sum(not worker.key and worker.config.takes(track) for worker in self._workers)

    def submit(self, key: str, spec: TaskSpec) -> None:
        worker = next(worker for worker in self._workers if not worker.key and worker.config.takes(spec.track))
        worker.key, worker.spent = key, 0.0
        message = json.dumps({"key": key, "spec": spec.model_dump(mode="json")})
        with contextlib.suppress(OSError):  # the worker died while it was idle: `reports` notices and says so
            worker.pipe.send_bytes(message.encode())

    def reports(self, seconds: float) -> Iterator[TaskResult]:
        busy = {worker.pipe: worker for worker in self._workers if worker.key}
        for pipe in wait(list(busy), timeout=seconds):
            worker = busy[pipe]  # type: ignore[index]
            try:
                message = json.loads(worker.pipe.recv_bytes())
                if message == READY:
                    worker.spent, worker.ready = 0.0, True
                    continue
                if isinstance(message, float):
                    self.shares[worker.key] = message
                    continue
                result, worker.key = TaskResult(*message), ""
            except (EOFError, OSError):
                worker.process.join(5)
                result = TaskResult(worker.key, "died", why_ended(worker.process.exitcode))
                self._replace(worker)
            self.shares.pop(result.key, None)
            yield result
        passed, self._looked = time.monotonic() - self._looked, time.monotonic()
        for worker in list(self._workers):
            worker.spent += min(passed, LONGEST_LOOK_S)
            if worker.key and worker.ready and worker.spent > self._limit:
                self._replace(worker)
                yield TaskResult(worker.key, "failed", f"took longer than the time limit of {self._limit:g} s")
            elif worker.key and not worker.ready and worker.spent > START_S:
                self._replace(worker)
                yield TaskResult(worker.key, "died", f"its worker did not start within {START_S:g} s")

    def close(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            if worker.key or not worker.ready:  # the others end by themselves
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(5)
            worker.process.kill()

    def _replace(self, worker: _Process) -> None:
        self.shares.pop(worker.key, None)
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()
        self._workers[self._workers.index(worker)] = self._start(worker.config)

    def _start(self, config: WorkerConfig) -> _Process:
        context = processes(config.device == "cpu")
        here, there = context.Pipe()
        process = context.Process(target=serve, args=(there, config, dict(os.environ)), daemon=True)
        with without_script():
            process.start()
        there.close()
        return _Process(process, here, config)


@contextlib.contextmanager
def without_script() -> Iterator[None]:
    """Keep a new process from running the script that starts it, because it needs nothing from the script."""
    with _starting:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


def processes(on_cpu: bool) -> ForkServerContext | SpawnContext:
    """Return how processes are started; those that compute on a GPU share nothing with this one."""
    if on_cpu and "forkserver" in multiprocessing.get_all_start_methods():
        from multiprocessing import forkserver

        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([PREPARED])
        with contextlib.suppress(OSError):  # if sockets cannot be made in the temporary folder
            forkserver.ensure_running()
            return context
    return multiprocessing.get_context("spawn")


def serve(pipe: Connection, config: WorkerConfig, environment: Mapping[str, str]) -> None:
    """Run tasks from the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.clear()  # the server's variables may be older
    os.environ.update(environment)
    np.random.seed()  # a fork starts with the server's state
    keep_freed_memory()
    worker = Worker(config)

    def tell(message: str | float) -> None:
        with contextlib.suppress(OSError):  # the parent has gone, which `_end_with_parent` and the next task notice
            pipe.send_bytes(json.dumps(message).encode())

    tell(READY)
    while True:
        try:
            message = json.loads(pipe.recv_bytes())
            result = worker.run(message["key"], TaskSpec.model_validate(message["spec"]), tell)
            pipe.send_bytes(json.dumps(astuple(result)).encode())
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    """End this process when its parent has ended, even in the middle of a task: files are complete or not there."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
