"""Shards: a task that several workers computed in parts is, to the bit, the one that a single worker computes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from imharness.components.registry import installed
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness.running.executor import Worker, WorkerConfig
from imharness.running.shards import FOLDER, ShardDone, Shards, forget_shards, key_of_join, keys_of_shards, task_of

BATCH = 2
SELECTIONS = {
    "harness/iqa": {
        "attack": ["ifgsm"], "metric": ["embedded-cnn", "ssim-uniform7"],
        "defense": ["none", "rotate", "rs[selection=4,samples=25]", "ms[selection=4,samples=25]"],
        "dataset": ["harness/pictures[severities=[3],size=48]"],
    },
    "harness/perceptual": {
        "dataset": ["harness/severity-ladder[severities=[2,3],size=48]"], "metric": ["l2"], "attack": ["ifgsm"],
    },
    "harness/membership": {
        "defense": ["plain-training", "l2", "memguard[epochs=2,patience=5]"], "evaluator": ["lira", "confidence"],
    },
    "harness/reconstruction": {
        "model": ["lenet"], "attack": ["invgrad[steps=8]"], "defense": ["plain-gradient"], "metric": ["mse"],
    },
}  # fmt: skip
OPTIONS = {
    "harness/iqa": {"audited": 3},
    "harness/membership": {"splits": 1, "epochs": 2, "references": 3, "copies": 1},
    "harness/reconstruction": {"at_once": 2, "epochs": 1, "judge": "harness/convnet8[width=2]"},
}


def graph_of(track: str) -> Graph:
    profile = load_profile("embedded")
    track_settings = profile.tracks[track]
    track_settings = track_settings.model_copy(update={"options": {**track_settings.options, **OPTIONS.get(track, {})}})
    changed = profile.model_copy(update={"tracks": {**profile.tracks, track: track_settings}})
    return plan_track(track, changed, installed(), only=SELECTIONS[track], limit=5)


def quiet(done: int, total: int) -> None:
    pass


@pytest.mark.parametrize("track", SELECTIONS)
def test_tasks_in_shards_are_those_without_to_the_bit(
    track: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imharness_membership.steps.TOGETHER", 1)
    registry, graph = installed(), graph_of(track)
    # In the folder w tasks are computed whole, in the folder p in shards.
    whole, sharded = (BuildCache(registry, Store(tmp_path / name), torch.device("cpu"), BATCH) for name in "wp")
    shared, several = set(), set()
    for key, task in graph.tasks.items():
        record = run_task(whole, key, task.spec, quiet)
        assert record is not None
        assert record.status == "done", record.failure
        if not graph.track.step(task.spec.step).shared:
            run_task(sharded, key, task.spec, quiet)
            continue
        shared.add(task.spec.step)
        for shard in reversed(keys_of_shards(key, 4)):  # in whatever order
            assert run_task(sharded, shard, task.spec, quiet) is None
        assert sharded.store.record(key) is None
        shard_files = list((tmp_path / "p" / FOLDER).rglob("*.safetensors"))
        several |= {task.spec.step} if len(shard_files) > 1 else set()
        joined = run_task(sharded, key_of_join(key, 4), task.spec, quiet)
        assert joined is not None
        assert joined.key == key
        assert joined.spec == record.spec
        assert not list((tmp_path / "p" / FOLDER).rglob("*.safetensors"))
        assert (joined.rows, joined.arrays) == (record.rows, record.arrays), task.address
    assert shared == {step.name for step in graph.track.steps if step.shared}
    assert several == shared


def example(folder: Path, key: str, of: int = 3) -> tuple[Shards, list[list[int]], Callable[..., Any]]:
    """Return the shards of a key, the pieces that are computed so far, and the function that computes pieces."""
    computed: list[list[int]] = []

    def compute(pieces: list[int]) -> list[dict[str, np.ndarray]]:
        computed.append(list(pieces))
        return [
            {"n": np.array([piece, piece]), **({"odd": np.array([piece])} if piece % 2 else {})} for piece in pieces
        ]

    return Shards(Store(folder), key), computed, compute


def test_a_task_joins_what_is_there_and_computes_what_is_not(tmp_path: Path) -> None:
    task, pieces = "ab" * 32, list(range(7))
    first, computed, compute = example(tmp_path, keys_of_shards(task, 3)[0])
    with pytest.raises(ShardDone):
        first.joined(pieces, compute)
    assert computed == [[0, 1]]
    again, computed, compute = example(tmp_path, keys_of_shards(task, 3)[0])
    with pytest.raises(ShardDone):
        again.joined(pieces, compute)
    assert computed == []  # an earlier run has computed it
    join, computed, compute = example(tmp_path, key_of_join(task, 3))
    columns = join.joined(pieces, compute)
    assert computed == [[2, 3], [4, 5, 6]]
    assert columns["n"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert columns["odd"].tolist() == [1, 3, 5]
    assert list(columns) == ["n", "odd"]
    second_call = join.joined([8, 9, 10], compute)  # a second call is not computed by shards
    assert second_call["n"].tolist() == [8, 8, 9, 9, 10, 10]
    join.forget()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_damaged_shard_is_computed_again(tmp_path: Path) -> None:
    task = "cd" * 32
    one, _, compute = example(tmp_path, keys_of_shards(task, 2)[1])
    with pytest.raises(ShardDone):
        one.joined([1, 2], compute)
    (file,) = tmp_path.rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    join, computed, compute = example(tmp_path, key_of_join(task, 2))
    assert join.joined([1, 2], compute)["n"].tolist() == [1, 1, 2, 2]
    assert computed == [[1], [2]]


def test_shards_of_another_number_are_not_taken_for_these_and_go_with_them(tmp_path: Path) -> None:
    task = "ef" * 32
    for of in (2, 4):
        one, _, compute = example(tmp_path, keys_of_shards(task, of)[0])
        with pytest.raises(ShardDone):
            one.joined([1, 2, 3, 4], compute)
    join, computed, compute = example(tmp_path, key_of_join(task, 4))
    assert join.joined([1, 2, 3, 4], compute)["n"].tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert computed == [[2], [3], [4]]
    forget_shards(Store(tmp_path), task)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_shards_that_were_made_with_other_versions_are_not_joined(tmp_path: Path) -> None:
    task, store = "34" * 32, Store(tmp_path)
    one, _, compute = example(tmp_path, keys_of_shards(task, 2)[0])
    with pytest.raises(ShardDone):
        one.joined([1, 2], compute)
    _, computed, compute = example(tmp_path, task)
    Shards(store, key_of_join(task, 2), lambda: {"torch": "9"}).joined([1, 2], compute)
    assert computed == [[1], [2]]


def test_more_shards_than_pieces_leave_nothing(tmp_path: Path) -> None:
    task = "12" * 32
    for key in keys_of_shards(task, 8):
        one, _, compute = example(tmp_path, key)
        with pytest.raises(ShardDone):
            one.joined([5], compute)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1
    join, computed, compute = example(tmp_path, key_of_join(task, 8))
    assert join.joined([5], compute)["n"].tolist() == [5, 5]
    assert computed == []
    assert task_of(key_of_join(task, 8)) == task_of(task) == task


def test_a_shard_that_fails_leaves_no_record_and_its_task_says_why(tmp_path: Path) -> None:
    graph = graph_of("harness/perceptual")
    key, task = next((k, t) for k, t in graph.tasks.items() if t.spec.step == "attack")
    broken = task.spec.model_copy(update={"options": {**task.spec.options, "images": "none"}})
    store = Store(tmp_path)
    worker = Worker(WorkerConfig(store.address, "cpu", BATCH))
    (shard, *_) = keys_of_shards(key, 2)
    assert worker.run(shard, broken).status == "done"
    assert store.record(key) is None
    result = worker.run(key_of_join(key, 2), broken)
    assert result.status == "failed"
    assert "invalid literal" in result.line
    record = store.record(key)
    assert record is not None
    assert record.failure is not None
