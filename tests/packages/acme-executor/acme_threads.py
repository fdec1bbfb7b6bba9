"""Computes tasks in threads; this module needs torch, and is imported when the executor is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from imharness.extending import TaskResult, TaskSpec, Worker, WorkerConfig


class Threads:
    """Computes tasks in threads of this process; each has a worker of its own."""

    def __init__(self, workers: Sequence[WorkerConfig], time_limit_s: float, *, thread_name: str = "acme") -> None:
        self._free = [Worker(config) for config in workers]
        self._pool = ThreadPoolExecutor(len(workers), thread_name_prefix=thread_name)
        self._running: dict[Future[TaskResult], Worker] = {}

    @property
    def idle(self) -> int:
        return len(self._free)

    def submit(self, key: str, spec: TaskSpec) -> None:
        worker = self._free.pop()
        self._running[self._pool.submit(worker.run, key, spec)] = worker

    def reports(self, seconds: float) -> Iterator[TaskResult]:
        for future in wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED).done:
            self._free.append(self._running.pop(future))
            yield future.result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for worker in [*self._free, *self._running.values()]:
            worker.close()
