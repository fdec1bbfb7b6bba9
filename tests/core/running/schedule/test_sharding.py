"""Long tasks are cut into shards, and a run with shards ends as one without."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.conftest import Harness
from tests.rows_of import rows_of

from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running.executor import TaskResult
from imharness.running.schedule.sharding import FINEST, MOST, SHORTEST_S, Sharded, number_of_shards
from imharness.running.shards import ShardDone, Shards, key_of_join, keys_of_shards

SPEC = TaskSpec(track="a/t", step="s", version="1", components={}, options={}, limit=None, seed=0, needs={})
TASK, OTHER = "ab" * 32, "cd" * 32


class Slots:
    """An executor with some slots, whose tasks end when a test says so."""

    def __init__(self, slots: int) -> None:
        self.slots, self.running, self.submitted = slots, list[str](), list[str]()
        self._ends: list[TaskResult] = []

    @property
    def idle(self) -> int:
        return self.slots - len(self.running)

    def submit(self, key: str, spec: TaskSpec) -> None:
        assert self.idle
        self.running.append(key)
        self.submitted.append(key)

    def end(self, *keys: str, status: str = "done") -> None:
        for key in keys:
            self.running.remove(key)
            self._ends.append(TaskResult(key, status, "why"))  # type: ignore[arg-type]

    def reports(self, seconds: float) -> Iterable[TaskResult]:
        ended, self._ends = self._ends, []
        return ended

    def close(self) -> None:
        self.running.clear()


def sharded(folder: Path, slots: int, of: int = 4, fresh: bool = False) -> tuple[Sharded, Slots]:
    """Return an executor that cuts `TASK` into `of` shards and no other task, and the executor below it."""
    inner = Slots(slots)
    return Sharded(inner, lambda key: of if key == TASK else 1, Store(folder), fresh=fresh), inner


@pytest.mark.parametrize(
    ("seconds", "left_s", "expected"),
    [
        (1, 0, 1),
        (59, 0, 1),
        (60, 0, 2),
        (119, 0, 2),
        (121, 0, 4),
        (10_000, 0, MOST),
        (600, 60 * FINEST, 8),
        (600, 300 * FINEST, 2),
        (600, 301 * FINEST, 1),
    ],
)
def test_a_task_has_shards_of_half_a_minute_or_more(seconds: float, left_s: float, expected: int) -> None:
    assert SHORTEST_S == 30
    assert number_of_shards(seconds, left_s) == expected


def test_shards_fill_the_slots_and_the_task_ends_once(tmp_path: Path) -> None:
    executor, inner = sharded(tmp_path, 3)
    executor.submit(TASK, SPEC)
    shards = keys_of_shards(TASK, 4)
    assert inner.running == shards[:3]
    assert executor.idle == 0
    inner.end(shards[1])
    assert executor.reports(0) == []
    assert inner.running == [shards[0], shards[2], shards[3]]
    inner.end(shards[0], shards[2])
    assert executor.reports(0) == []
    assert executor.idle == 2
    executor.submit(OTHER, SPEC)
    inner.end(shards[3], OTHER)
    assert [result.key for result in executor.reports(0)] == [OTHER]
    assert inner.running == [key_of_join(TASK, 4)]
    inner.end(key_of_join(TASK, 4))
    assert executor.reports(0) == [TaskResult(TASK, "done", "why")]
    assert executor.idle == 3
    executor.submit(TASK, SPEC)  # it may be asked for again
    assert inner.running == shards[:3]


def test_a_shard_whose_worker_ends_is_tried_once_more_and_then_left_to_the_task(tmp_path: Path) -> None:
    executor, inner = sharded(tmp_path, 2, of=2)
    executor.submit(TASK, SPEC)
    one, two = keys_of_shards(TASK, 2)
    inner.end(one, status="died")
    assert executor.reports(0) == []
    assert inner.running == [two, one]
    inner.end(two, status="failed")
    inner.end(one, status="died")
    assert executor.reports(0) == []
    assert inner.running == [key_of_join(TASK, 2)]
    inner.end(key_of_join(TASK, 2), status="failed")
    assert executor.reports(0) == [TaskResult(TASK, "failed", "why")]


def test_a_store_that_fails_a_shard_is_told_at_once(tmp_path: Path) -> None:
    executor, inner = sharded(tmp_path, 2, of=2)
    executor.submit(TASK, SPEC)
    inner.end(inner.running[0], status="store")
    assert executor.reports(0) == [TaskResult(TASK, "store", "why")]


@pytest.mark.parametrize("fresh", [True, False])
def test_a_fresh_run_takes_no_shards_of_an_earlier_one(tmp_path: Path, fresh: bool) -> None:
    with pytest.raises(ShardDone):
        Shards(Store(tmp_path), keys_of_shards(TASK, 4)[2]).joined([1, 2, 3, 4], lambda pieces: [{} for _ in pieces])
    executor, _ = sharded(tmp_path, 1, fresh=fresh)
    executor.submit(TASK, SPEC)
    assert len(list(tmp_path.rglob("*.safetensors"))) == (not fresh)


def test_a_run_in_shards_writes_the_rows_of_one_without(
    tmp_path: Path, harness_here: Harness, no_site: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", "--track", "iqa", "--metric", "embedded-cnn", "--attack", "ifgsm", "--attack", "square",
             "--defense", "none", "--defense", "rotate", "--limit", "6", "--device", "cpu", "--store", "store",
             "--json"]  # fmt: skip

    assert harness_here(*words, "--workers", "0", cwd=tmp_path).returncode == 0
    before, cut = rows_of(tmp_path / "store"), list[int]()

    def often(seconds: float, left_s: float) -> int:
        cut.append(4)
        return 4

    monkeypatch.setattr("imharness.running.schedule.sharding.SHORTEST_S", 0.0)
    monkeypatch.setattr("imharness.running.schedule.sharding.number_of_shards", often)
    process = harness_here(*words, "--workers", "2", "--fresh", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    assert len(cut) >= 8
    assert rows_of(tmp_path / "store") == before
    assert not list((tmp_path / "store" / "shards").rglob("*.safetensors"))
