"""Shards: a cell that several workers computed in parts is, to the bit, the one that a single worker computes."""

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
from imharness.running.shards import FOLDER, ShardDone, Shards, cell_of, forget_shards, key_of_join, keys_of_shards

BATCH = 2
SELECTIONS = {
    "harness/iqa": {
        "attack": ["ifgsm"], "metric": ["embedded-cnn", "ssim-uniform7"],
        "defense": ["none", "rotate", "rs[selection=4,samples=25]", "ms[selection=4,samples=25]"],
        "dataset": ["harness/severity-ladder[severities=[3],size=48]"],
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
    part = profile.tracks[track]
    part = part.model_copy(update={"options": {**part.options, **OPTIONS.get(track, {})}})
    changed = profile.model_copy(update={"tracks": {**profile.tracks, track: part}})
    return plan_track(track, changed, installed(), only=SELECTIONS[track], limit=5)


def quiet(done: int, total: int) -> None:
    pass


@pytest.mark.parametrize("track", SELECTIONS)
def test_cells_in_shards_are_those_without_to_the_bit(
    track: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imharness_membership.steps.TOGETHER", 1)
    registry, graph = installed(), graph_of(track)
    whole, parts = (BuildCache(registry, Store(tmp_path / name), torch.device("cpu"), BATCH) for name in "wp")
    shared, several = set(), set()
    for key, task in graph.tasks.items():
        record = run_task(whole, key, task.spec, quiet)
        assert record is not None
        assert record.status == "done", record.failure
        if not graph.track.step(task.spec.step).shared:
            run_task(parts, key, task.spec, quiet)
            continue
        shared.add(task.spec.step)
        for shard in reversed(keys_of_shards(key, 4)):  # in whatever order
            assert run_task(parts, shard, task.spec, quiet) is None
        assert parts.store.record(key) is None
        lie = list((tmp_path / "p" / FOLDER).rglob("*.safetensors"))
        several |= {task.spec.step} if len(lie) > 1 else set()
        joined = run_task(parts, key_of_join(key, 4), task.spec, quiet)
        assert joined is not None
        assert joined.key == key
        assert joined.spec == record.spec
        assert not list((tmp_path / "p" / FOLDER).rglob("*.safetensors"))
        for kind in ("rows", "arrays"):
            one, two = getattr(record, kind), getattr(joined, kind)
            assert (one and one.sha256) == (two and two.sha256), (task.address, kind)
    assert shared == {step.name for step in graph.track.steps if step.shared}
    assert several == shared


def example(folder: Path, key: str, of: int = 3) -> tuple[Shards, list[list[int]], Callable[..., Any]]:
    asked: list[list[int]] = []

    def compute(pieces: list[int]) -> list[dict[str, np.ndarray]]:
        asked.append(list(pieces))
        return [
            {"n": np.array([piece, piece]), **({"odd": np.array([piece])} if piece % 2 else {})} for piece in pieces
        ]

    return Shards(Store(folder), key), asked, compute


def test_a_cell_joins_what_is_there_and_computes_what_is_not(tmp_path: Path) -> None:
    cell, pieces = "ab" * 32, list(range(7))
    first, asked, compute = example(tmp_path, keys_of_shards(cell, 3)[0])
    with pytest.raises(ShardDone):
        first.joined(pieces, compute)
    assert asked == [[0, 1]]
    again, asked, compute = example(tmp_path, keys_of_shards(cell, 3)[0])
    with pytest.raises(ShardDone):
        again.joined(pieces, compute)
    assert asked == []  # an earlier run has computed it
    join, asked, compute = example(tmp_path, key_of_join(cell, 3))
    found = join.joined(pieces, compute)
    assert asked == [[2, 3], [4, 5, 6]]
    assert found["n"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert found["odd"].tolist() == [1, 3, 5]
    assert list(found) == ["n", "odd"]
    assert join.joined([8], compute)["n"].tolist() == [8, 8]  # a second call is none of the shards'
    join.forget()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_damaged_shard_is_computed_again(tmp_path: Path) -> None:
    cell = "cd" * 32
    one, _, compute = example(tmp_path, keys_of_shards(cell, 2)[1])
    with pytest.raises(ShardDone):
        one.joined([1, 2], compute)
    (file,) = tmp_path.rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    join, asked, compute = example(tmp_path, key_of_join(cell, 2))
    assert join.joined([1, 2], compute)["n"].tolist() == [1, 1, 2, 2]
    assert asked == [[1], [2]]


def test_shards_of_another_number_are_not_taken_for_these_and_go_with_them(tmp_path: Path) -> None:
    cell = "ef" * 32
    for of in (2, 4):
        one, _, compute = example(tmp_path, keys_of_shards(cell, of)[0])
        with pytest.raises(ShardDone):
            one.joined([1, 2, 3, 4], compute)
    join, asked, compute = example(tmp_path, key_of_join(cell, 4))
    assert join.joined([1, 2, 3, 4], compute)["n"].tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert asked == [[2], [3], [4]]
    forget_shards(Store(tmp_path), cell)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_shards_that_were_made_with_other_versions_are_not_joined(tmp_path: Path) -> None:
    cell, store = "34" * 32, Store(tmp_path)
    one, _, compute = example(tmp_path, keys_of_shards(cell, 2)[0])
    with pytest.raises(ShardDone):
        one.joined([1, 2], compute)
    _, asked, compute = example(tmp_path, cell)
    Shards(store, key_of_join(cell, 2), lambda: {"torch": "9"}).joined([1, 2], compute)
    assert asked == [[1], [2]]


def test_more_shards_than_pieces_leave_nothing(tmp_path: Path) -> None:
    cell = "12" * 32
    for key in keys_of_shards(cell, 8):
        one, _, compute = example(tmp_path, key)
        with pytest.raises(ShardDone):
            one.joined([5], compute)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1
    join, asked, compute = example(tmp_path, key_of_join(cell, 8))
    assert join.joined([5], compute)["n"].tolist() == [5, 5]
    assert asked == []
    assert cell_of(key_of_join(cell, 8)) == cell_of(cell) == cell


def test_a_shard_that_fails_leaves_no_record_and_its_cell_says_why(tmp_path: Path) -> None:
    graph = graph_of("harness/perceptual")
    key, task = next((k, t) for k, t in graph.tasks.items() if t.spec.step == "attack")
    broken = task.spec.model_copy(update={"options": {**task.spec.options, "images": "none"}})
    store = Store(tmp_path)
    worker = Worker(WorkerConfig(store.address, "cpu", BATCH))
    (shard, *_) = keys_of_shards(key, 2)
    assert worker.run(shard, broken).status == "done"
    assert store.record(key) is None
    found = worker.run(key_of_join(key, 2), broken)
    assert found.status == "failed"
    assert "invalid literal" in found.line
    record = store.record(key)
    assert record is not None
    assert record.failure is not None
