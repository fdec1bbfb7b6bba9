"""Workers that are stopped, killed or out of memory fail with one clear line, and none outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.faults.forked import left_over, started

from imharness.running import local
from imharness.running.executor import Worker, WorkerConfig
from imharness.running.local import LocalWorkers
from imharness.running.memory import OUT_OF_MEMORY, is_out_of_memory, why_ended
from imharness_submissions.sandbox.processes import tree


class Stopped:
    """A worker's process that does nothing."""

    exitcode = None

    def kill(self) -> None:
        self.exitcode = -9

    def join(self, seconds: float | None = None) -> None:
        pass


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LocalWorkers:
    """A pool of one worker that never answers; tests set how much time has passed."""
    ends = []

    def start(local_workers: LocalWorkers, config: WorkerConfig) -> local._Process:
        here, there = local.processes(on_cpu=True).Pipe()
        ends.append(there)
        return local._Process(Stopped(), here, config)

    monkeypatch.setattr(LocalWorkers, "_start", start)
    monkeypatch.setattr(local, "processes", lambda on_cpu: local.multiprocessing.get_context("spawn"))
    workers = LocalWorkers([WorkerConfig(tmp_path, "cpu", 1)], time_limit_s=10)
    workers._workers[0].key = "task"
    return workers


def looked(pool: LocalWorkers, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> list[local.TaskResult]:
    """Return what the pool reports after each of these times has passed."""
    reports = []
    for passed in seconds:
        monkeypatch.setattr(pool, "_looked", time.monotonic() - passed)
        reports += list(pool.reports(0.0))
    return reports


def test_a_stopped_worker_is_ended_by_the_time_limit(pool: LocalWorkers, monkeypatch) -> None:
    pool._workers[0].ready = True
    assert looked(pool, monkeypatch, 4, 4) == []
    (result,) = looked(pool, monkeypatch, 4)
    assert (result.status, result.line) == ("failed", "took longer than the time limit of 10 s")


def test_a_run_that_was_stopped_itself_fails_no_task(pool: LocalWorkers, monkeypatch) -> None:
    pool._workers[0].ready = True
    assert looked(pool, monkeypatch, 3600) == []


def test_a_worker_that_is_stopped_before_it_is_ready_is_replaced(pool: LocalWorkers, monkeypatch) -> None:
    monkeypatch.setattr(local, "START_S", 20)
    assert looked(pool, monkeypatch, 4, 4, 4, 4) == []
    (result,) = looked(pool, monkeypatch, 5)
    assert (result.status, result.line) == ("died", "its worker did not start within 20 s")


def test_a_worker_that_the_system_killed_names_memory() -> None:
    assert OUT_OF_MEMORY in why_ended(-signal.SIGKILL)
    assert why_ended(3) == "the worker ended with code 3"


def test_memory_that_is_used_up_is_told_and_not_thrown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def used_up(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr("imharness.running.context.run_task", used_up)
    worker = Worker(WorkerConfig(tmp_path, "cpu", 1))
    result = worker.run("key", None)  # type: ignore[arg-type]
    assert (result.status, result.line) == ("failed", OUT_OF_MEMORY)
    message = (
        "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"
    )
    assert is_out_of_memory(RuntimeError(message))


PARENT = """
import time
from pathlib import Path
from imharness.running import local
from imharness.running.executor import WorkerConfig
def busy(facts):
    Path("busy").touch()
    time.sleep(600)
if __name__ == "__main__":
    local.LocalWorkers([WorkerConfig(Path("store"), "cpu", 1, (("parent:busy", {}),))], 600)
    time.sleep(600)
"""


def test_a_busy_worker_and_its_server_end_with_their_parent(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    with subprocess.Popen([sys.executable, "parent.py"], cwd=tmp_path) as parent:
        while not (tmp_path / "busy").exists():
            time.sleep(0.05)
        seen = {pid: since for pid in tree(parent.pid)[1:] if (since := started(pid))}
        os.kill(parent.pid, signal.SIGKILL)
    assert len(seen) >= 2
    assert left_over(seen) == []
