"""Workers on this machine: one process per device, or several on the CPU with one thread each.

Parent and worker speak JSON over a pipe. A worker that dies is replaced and its task tried once more; one that takes
too long is ended and its task fails. A worker whose parent is gone stops by itself.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

from imharness.errors import StoreError
from imharness.results.records import TaskSpec

if TYPE_CHECKING:
    from imharness_submissions.sandbox.jail import GuestSpec
    from imharness_submissions.sandbox.proxies import PackageDescription

TaskResult = tuple[str, str, str]
"""(key, status, one line): status is done, failed, died, or store."""


READY = "ready"
"""What a worker says first; the time limit of its first task starts then."""


@dataclass(frozen=True)
class WorkerConfig:
    """How a worker is set up."""

    store: Path
    device: str
    threads: int
    batch_size: int
    submissions: tuple[tuple[GuestSpec, PackageDescription], ...] = ()
    """Packages that run in the sandbox, with what they offer."""


@dataclass
class Worker:
    """A process and the task it works on."""

    process: BaseProcess
    pipe: Connection
    bench: WorkerConfig
    key: str = ""
    since: float = 0.0
    ready: bool = False


class InProcess:
    """Runs tasks here, one after the other: for debugging."""

    def __init__(self, bench: WorkerConfig) -> None:
        self._run = open_bench(bench)
        self._report: TaskResult | None = None
        self.capacity = 1

    def submit(self, key: str, spec: TaskSpec) -> None:
        """Run a task now."""
        self._report = self._run(key, spec)

    def reports(self, seconds: float) -> Iterator[TaskResult]:
        """Yield what became of the task."""
        if self._report:
            report, self._report = self._report, None
            yield report

    @property
    def idle(self) -> int:
        """How many tasks can be submitted now."""
        return 0 if self._report else 1

    def close(self) -> None:
        """Nothing to end."""


class LocalWorkers:
    """A pool of worker processes."""

    def __init__(self, benches: list[WorkerConfig], time_limit_s: float) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._limit = time_limit_s
        self._workers = [self._start(bench) for bench in benches]
        self.capacity = len(benches)

    @property
    def idle(self) -> int:
        """How many tasks can be submitted now."""
        return sum(not worker.key for worker in self._workers)

    def submit(self, key: str, spec: TaskSpec) -> None:
        """Give a task to an idle worker."""
        worker = next(worker for worker in self._workers if not worker.key)
        worker.key, worker.since = key, time.monotonic()
        message = json.dumps({"key": key, "spec": spec.model_dump(mode="json")})
        with contextlib.suppress(OSError):  # a worker that died idle: `reports` finds that out and says so
            worker.pipe.send_bytes(message.encode())

    def reports(self, seconds: float) -> Iterator[TaskResult]:
        """Yield finished tasks, waiting at most `seconds` for the first."""
        busy = {worker.pipe: worker for worker in self._workers if worker.key}
        for pipe in wait(list(busy), timeout=seconds):
            worker = busy[pipe]  # type: ignore[index]
            try:
                message = json.loads(worker.pipe.recv_bytes())
                if message == READY:
                    worker.since, worker.ready = time.monotonic(), True
                    continue
                key, status, line = message
                worker.key = ""
            except (EOFError, OSError):
                worker.process.join(5)
                key, status, line = worker.key, "died", f"the worker ended with code {worker.process.exitcode}"
                self._replace(worker)
            yield key, status, line
        for worker in list(self._workers):
            if worker.key and worker.ready and time.monotonic() - worker.since > self._limit:
                key = worker.key
                self._replace(worker)
                yield key, "failed", f"took longer than the time limit of {self._limit:g} s"

    def close(self) -> None:
        """End all workers; what they were working on is not kept."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(5)
            if worker.process.is_alive():
                worker.process.kill()

    def _replace(self, worker: Worker) -> None:
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()
        self._workers[self._workers.index(worker)] = self._start(worker.bench)

    def _start(self, bench: WorkerConfig) -> Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=serve, args=(there, bench), daemon=True)
        process.start()
        there.close()
        return Worker(process, here, bench)


def open_bench(bench: WorkerConfig) -> Callable[[str, TaskSpec], TaskResult]:
    """Set this process up and return the function that runs a task in it."""
    import torch

    from imharness.components.registry import installed
    from imharness.results.store import Store
    from imharness.running.context import BuildCache, run_task
    from imharness_submissions.sandbox.host import Guest

    if bench.threads:
        torch.set_num_threads(bench.threads)
        os.environ["OPENCV_FOR_THREADS_NUM"] = str(bench.threads)
    registry, guests = installed(), []
    for spec, offer in bench.submissions:
        guests.append(Guest(spec))
        registry = registry.joined(offer.entries(guests[-1]))

    def end_task(failed: bool) -> list[str]:
        for guest in guests:
            guest.end_task(failed)
        return [line for guest in guests for line in guest.taken()]

    workbench = BuildCache(registry, Store(bench.store), torch.device(bench.device), bench.batch_size, end_task)

    def run(key: str, spec: TaskSpec) -> TaskResult:
        try:
            record = run_task(workbench, key, spec, lambda done, total: None)
        except StoreError as error:
            return key, "store", str(error)
        failure = record.failure
        return key, record.status, f"{failure.who}: {failure.error}: {failure.message}" if failure else ""

    return run


def serve(pipe: Connection, bench: WorkerConfig) -> None:
    """Run tasks from the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run = open_bench(bench)
    with contextlib.suppress(OSError):
        pipe.send_bytes(json.dumps(READY).encode())
    while True:
        try:
            message = json.loads(pipe.recv_bytes())
            pipe.send_bytes(json.dumps(run(message["key"], TaskSpec.model_validate(message["spec"]))).encode())
        except (EOFError, OSError):
            return
