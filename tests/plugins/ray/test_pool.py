"""The pool of workers on a simulated cluster: nodes without an asset, workers that end, tasks that take too long."""

import gc
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.plugins.ray.naps import naps

from imharness.errors import HarnessError
from imharness.results.store import Store
from imharness.results.tasks import Failure, TaskRecord
from imharness.running.executor import TaskResult, WorkerConfig

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]


@dataclass
class PlayedNode:
    id: str
    room: int
    host: str = "host"


@dataclass
class Clock:
    """Time as a test makes it pass, s."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class PlayedCluster:
    """Nodes whose workers answer at once; tasks end when `finish` is called.

    `free`: node -> number of workers for which it has room. `gone`: nodes that have ended. `absent`: nodes that lack an
    asset. `tasks`: key -> node and what to call at the end. `asked`: node and method of each call. `given`: the keys
    that a worker got at once.
    """

    store: Store
    free: dict[str, int]
    gone: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    tasks: dict[str, tuple[str, Callable[[Any], None]]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    given: list[list[str]] = field(default_factory=list)
    needs: str = "a core"
    grows: bool = True
    clock: Clock = field(default_factory=Clock)

    def nodes(self) -> list[PlayedNode]:
        return [PlayedNode(id, 4) for id in self.free]

    def start(self, without: Iterable[str]) -> "PlayedActor":
        node = next((id for id, room in self.free.items() if room and id not in without), "")
        if node:
            self.free[node] -= 1
        return PlayedActor(node)

    def call(self, method: str, then: Callable[[Any], None], **arguments: Any) -> None:
        from imharness_ray.remote_worker import note

        node, _, what = method.partition(":")
        self.asked.append((node, what))
        if node in self.gone:
            ended(then, error=RuntimeError("gone"))
        elif what == "where" and node:
            ended(then, (node, "host"))
        elif what == "open" and node:
            note(self.store, arguments["name"])
            ended(then, "")
        elif what == "run":
            key, _ = arguments["tasks"][0]  # of several only the first is begun
            self.tasks[key] = (node, then)
            self.given.append([key for key, _ in arguments["tasks"]])

    def finish(self, key: str) -> str:
        """End a task as its node does; return the node."""
        from imharness_ray.remote_worker import ABSENT

        node, then = self.tasks.pop(key)
        if node in self.gone:
            ended(then, error=RuntimeError("gone"))
        else:
            ending = (ABSENT, "asset x is not on this machine") if node in self.absent else ("done", "")
            ended(then, [(key, *ending)])
        return node

    def end(self, actor: Any) -> None:
        pass

    def close(self) -> None:
        pass


class PlayedActor:
    def __init__(self, node: str) -> None:
        self.where, self.open, self.run = f"{node}:where", f"{node}:open", f"{node}:run"


def ended(then: Callable[[Any], None], value: Any = None, error: Exception | None = None) -> None:
    future: Future[Any] = Future()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
    then(future)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedCluster:
    fake_cluster = PlayedCluster(Store(tmp_path), {"a": 2, "b": 1})
    monkeypatch.setattr("imharness_ray.executor.Cluster", lambda settings: fake_cluster)
    monkeypatch.setattr("imharness_ray.executor.facts", lambda names: {})
    monkeypatch.setattr("imharness_ray.executor.time", fake_cluster.clock)
    return fake_cluster


def opened(played: PlayedCluster, tasks: int) -> tuple[Any, list[str]]:
    """Return a pool whose workers have begun to work on so many naps, and the keys of these."""
    from imharness_ray.executor import RayWorkers

    executor = RayWorkers([WorkerConfig(played.store.address, "cpu", 4)], 60)
    keys = []
    for key, task in naps(*[0.0] * tasks).tasks.items():
        executor.submit(key, task.spec)
        keys.append(key)
    assert list(executor.reports(0)) == []
    assert list(executor.reports(0)) == []
    return executor, keys


def finished(executor: Any) -> list[TaskResult]:
    return [result for _ in range(3) for result in executor.reports(0)]


def test_a_machine_without_room_for_a_worker_says_so_and_waits_for_none(played: PlayedCluster) -> None:
    from imharness_ray.executor import RayWorkers

    played.free, played.grows = {}, False
    with pytest.raises(HarnessError, match="this machine has no room for a worker on Ray, which needs a core"):
        RayWorkers([WorkerConfig(played.store.address, "cpu", 4)], 60)


def test_a_cluster_that_nobody_listens_for_is_named_at_once() -> None:
    from imharness_ray.cluster import Cluster
    from imharness_ray.settings import RaySettings

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
        with pytest.raises(HarnessError, match=rf"^no Ray cluster at {address}: .*refused"):
            Cluster(RaySettings(ray_address=address))


def test_tasks_that_no_worker_has_begun_are_told_from_those_that_are_computed(played: PlayedCluster) -> None:
    executor, keys = opened(played, 5)
    assert set(executor.waiting) == set(keys) - set(played.tasks)
    assert len(executor.waiting) == 2


def test_a_node_without_an_asset_is_left_out_and_its_task_goes_to_another(
    played: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    played.absent.add("a")
    executor, keys = opened(played, 3)
    done = []
    for _ in range(5):
        for key in list(played.tasks):
            played.finish(key)
        done += finished(executor)
    assert sorted((result.key, result.status) for result in done) == sorted((key, "done") for key in keys)
    assert capsys.readouterr().err.count("is left out: asset x is not on this machine") == 1
    executor.close()
    assert list(played.store.all_keys()) == []


def write(played: PlayedCluster, key: str, status: Literal["done", "failed"], started: datetime | None = None) -> None:
    """Write the record of a nap as a worker does."""
    why = Failure(who="acme/naps", error="ValueError", message="it is odd", traceback="")
    began = (started or datetime.now(UTC)).isoformat(timespec="seconds")
    record = TaskRecord(
        key=key,
        spec=naps(*[0.0] * 8).tasks[key].spec,
        status=status,
        started=began,
        seconds=0,
        device="",
        failure=why if status == "failed" else None,
        versions={},
    )
    played.store.commit(record, {}, {})


def several(played: PlayedCluster) -> tuple[Any, list[str]]:
    """Return a pool of two workers; the one of node `a` has the tasks 2 to 4 at once, that of `b` task 1."""
    played.free = {"a": 1, "b": 1}
    executor, keys = opened(played, 8)
    played.finish(keys[0])
    assert [result.key for result in finished(executor)] == keys[:1]
    assert played.given == [keys[:1], keys[1:2], keys[2:5]]  # its first task was short
    return executor, keys


def test_what_an_earlier_run_left_is_not_taken_for_the_result_of_a_worker_that_ended(played: PlayedCluster) -> None:
    for key in naps(*[0.0] * 8).tasks:
        write(played, key, "done", datetime.now(UTC) - timedelta(hours=1))
    executor, keys = several(played)
    write(played, keys[2], "done")
    played.gone.add("a")
    played.finish(keys[2])
    assert [(result.key, result.status) for result in finished(executor)] == [(keys[2], "done"), (keys[3], "died")]
    executor.close()


def test_a_task_that_failed_is_not_blamed_for_the_end_of_its_worker(played: PlayedCluster) -> None:
    executor, keys = several(played)
    write(played, keys[2], "failed")
    played.gone.add("a")
    played.finish(keys[2])
    results = finished(executor)
    assert [(result.key, result.status) for result in results] == [(keys[2], "failed"), (keys[3], "died")]
    assert results[0].line == "acme/naps: ValueError: it is odd"
    executor.close()


def test_a_free_worker_gets_what_waits_behind_a_task_that_took_too_long(played: PlayedCluster) -> None:
    executor, keys = several(played)
    while rest := [key for key in keys if key in played.tasks and played.tasks[key][0] == "b"]:
        played.finish(rest[0])
        finished(executor)
    played.clock.now += 70
    assert list(executor.reports(0)) == []  # of a minute in which this process was stopped a few seconds count
    late = list[TaskResult]()
    for _ in range(70):
        played.clock.now += 1
        late += executor.reports(0)
    assert [(result.key, result.status) for result in late] == [(keys[2], "failed")]
    assert played.given[-1][0] == keys[3]
    assert played.finish(keys[3]) == "b"
    executor.close()


def test_a_free_worker_gets_what_another_one_was_given_and_did_not_begin(played: PlayedCluster) -> None:
    executor, keys = several(played)
    while rest := [key for key in keys if key in played.tasks and played.tasks[key][0] == "b"]:
        played.finish(rest[0])
        finished(executor)
    played.finish(keys[2])
    assert [result.key for result in finished(executor)] == [keys[2]]
    assert sorted(node for node, _ in played.tasks.values()) == ["a", "b"]
    executor.close()


def test_a_worker_that_ends_amid_several_tasks_loses_none_and_blames_one(played: PlayedCluster) -> None:
    executor, keys = several(played)
    write(played, keys[2], "done")
    played.gone.add("a")
    played.finish(keys[2])
    statuses = [(result.key, result.status) for result in finished(executor)]
    assert statuses == [(keys[2], "done"), (keys[3], "died")]
    played.finish(keys[1])
    assert [result.key for result in finished(executor)] == keys[1:2]
    assert played.finish(keys[4]) == "b"
    assert [(result.key, result.status) for result in finished(executor)] == [(keys[4], "done")]
    executor.close()


def test_after_a_death_free_workers_of_the_same_node_are_asked_before_they_get_a_task(played: PlayedCluster) -> None:
    executor, keys = opened(played, 3)
    assert sorted(node for node, _ in played.tasks.values()) == ["a", "a", "b"]
    first, second = (key for key in keys if played.tasks[key][0] == "a")
    (other,) = (key for key in keys if played.tasks[key][0] == "b")
    played.finish(second)
    assert [result.status for result in finished(executor)] == ["done"]
    played.gone.add("a")
    played.free.pop("a")
    played.finish(first)
    (died,) = finished(executor)
    assert (died.key, died.status) == (first, "died")
    executor.submit(first, naps(0.0, 0.0, 0.0).tasks[first].spec)
    played.finish(other)
    assert [result.status for result in finished(executor)] == ["done"]
    assert played.finish(first) == "b"
    assert [(result.key, result.status) for result in finished(executor)] == [(first, "done")]
    executor.close()


def test_a_worker_leaves_what_it_starts_with_out_of_every_search_for_garbage(tmp_path: Path) -> None:
    from imharness_ray.parity import facts, packages
    from imharness_ray.remote_worker import RemoteWorker, note

    config, names = WorkerConfig(str(tmp_path), "cpu", 16), packages()
    gc.unfreeze()
    try:
        RemoteWorker(vars(config), facts(names), names, note(Store(tmp_path), "greeting"), [], "answer")
        assert len(gc.get_objects()) < gc.get_freeze_count() / 10
    finally:
        gc.unfreeze()
