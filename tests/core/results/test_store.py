"""A result exists whole or not at all; damage is named in one line and costs nothing else."""

import errno
import os
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from imharness.cli.stores import verify
from imharness.errors import StoreError
from imharness.results.identity import ComponentRef, digest
from imharness.results.storage import local
from imharness.results.storage.files import packed
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec

ROWS = {"name": ["a", "b"], "score": np.array([0.5, 1.5], dtype=np.float32)}
ARRAYS = {"images": np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)}


def record(number: int = 0) -> TaskRecord:
    metric = ComponentRef(kind="metric", id="acme/m", version="1", label="acme/m", parameters={})
    spec = TaskSpec(
        track="acme/t",
        step="score",
        version="1",
        components={"metric": metric},
        options={"number": number},
        limit=None,
        seed=0,
        needs={},
    )
    return TaskRecord(
        key=digest(spec.identity()),
        spec=spec,
        status="done",
        started="2026-01-01",
        seconds=1.0,
        device="cpu",
        versions={},
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    store.prepare()
    for number in range(3):
        store.commit(record(number), ROWS, ARRAYS)
    return store


def test_what_went_in_comes_out(store: Store) -> None:
    found = store.record(record().key)
    assert found is not None
    assert found.n_rows == 2
    rows, arrays = store.rows(found), store.arrays(found)
    assert rows["name"].tolist() == ["a", "b"]
    np.testing.assert_array_equal(rows["score"], ROWS["score"])
    np.testing.assert_array_equal(arrays["images"], ARRAYS["images"])
    assert list(verify(store)) == []


def test_the_same_result_gives_the_same_bytes(store: Store) -> None:
    path = store.path_of(store.record(record().key).rows)
    before = path.read_bytes()
    store.commit(record(), ROWS, ARRAYS)
    assert path.read_bytes() == before


def test_an_edited_record_does_not_open(store: Store) -> None:
    path = store.root / "tasks" / record().key[:2] / f"{record().key}.json"
    path.write_text(path.read_text().replace('"seconds": 1.0', '"seconds": 2.0'))
    with pytest.raises(StoreError, match="changed after it was written"):
        store.record(record().key)
    assert len(list(verify(store))) == 1


def test_a_file_that_is_no_json_is_named(store: Store) -> None:
    path = store.root / "tasks" / record().key[:2] / f"{record().key}.json"
    path.write_bytes(b"\x00\x01")
    with pytest.raises(StoreError, match="is not a valid TaskRecord"):
        store.record(record().key)


@pytest.mark.parametrize(("folder", "suffix"), [("rows", "parquet"), ("artifacts", "safetensors")])
def test_a_truncated_or_changed_file_is_named(store: Store, folder: str, suffix: str) -> None:
    first, second = record(0), record(1)
    path = store.root / folder / first.key[:2] / f"{first.key}.{suffix}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError, match="missing or truncated"):
        store.record(first.key)
    changed = store.root / folder / second.key[:2] / f"{second.key}.{suffix}"
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(content)
    lines = list(verify(store))
    assert len(lines) == 2
    assert any("damaged" in line for line in lines)
    assert all("\n" not in line for line in lines)


def test_a_full_disk_keeps_what_was_finished(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="the disk is full; what was finished before is kept"):
        store.commit(record(9), ROWS, ARRAYS)
    monkeypatch.undo()
    assert store.record(record(9).key) is None
    assert not [p for p in store.root.rglob(".*") if p.is_file()]
    assert len(list(store.all_keys())) == 3


def test_results_that_are_flushed_together_are_on_the_disk_when_the_block_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    with store.together():
        made = [store.commit(record(number), ROWS, ARRAYS) for number in (7, 8)]
        assert flushed == []
        assert store.record(made[0].key) == made[0]
    files = [path for path in store.root.rglob("*") if path.is_file() and path.stem in {own.key for own in made}]
    assert sorted(flushed) == sorted(map(str, files))
    assert len(files) == 6
    store.commit(record(9), ROWS, {})
    assert len(flushed) == 8


def test_a_block_within_a_block_leaves_the_flushing_to_the_outer_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    with store.together():
        store.commit(record(7), ROWS, {})
        with store.together():
            store.commit(record(8), ROWS, {})
        store.commit(record(9), ROWS, {})
        assert flushed == []
    assert len(flushed) == 6


def test_what_a_block_within_a_block_has_flushed_soon_is_not_flushed_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    monkeypatch.setattr(local, "EVERY_S", 0.0)
    with store.together():
        for number in (7, 8):
            with store.together(soon=True):
                store.commit(record(number), ROWS, {})
        store.commit(record(9), ROWS, {})
        with store.together():
            pass
    assert len(flushed) == 6


def test_results_that_cannot_be_flushed_together_are_no_results(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="what was finished before is kept"), store.together():
        store.commit(record(9), ROWS, ARRAYS)


def test_results_that_are_flushed_soon_are_on_the_disk_when_a_later_block_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, flushed = threading.Event(), list[int]()

    def slow(descriptor: int) -> None:
        assert may_go_on.wait(400)
        flushed.append(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    with store.together(soon=True):
        made = store.commit(record(7), ROWS, ARRAYS)
    assert flushed == []
    assert store.record(made.key) == made
    with store.together(soon=True):
        assert flushed == []
        may_go_on.set()
    with store.together():
        pass
    assert len(flushed) == 3
    monkeypatch.setattr(local, "BEHIND", 2)
    for number in (8, 9):
        with store.together(soon=True):
            assert len(flushed) >= 3 * (number - 7) - 2
            store.commit(record(number), ROWS, ARRAYS)


def test_what_flushing_behind_a_block_failed_of_is_raised_by_a_later_block(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with store.together(soon=True):
        store.commit(record(7), ROWS, {})
    monkeypatch.setattr(local, "BEHIND", 0)
    with pytest.raises(StoreError, match="what was finished before is kept"), store.together(soon=True):
        raise AssertionError("the block was entered")
    monkeypatch.undo()
    with store.together():  # it is said once, of all its files
        store.commit(record(8), ROWS, {})


def test_a_log_that_does_not_reach_the_disk_stops_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    with store.together():
        store.backend.replace("logs/ab/x.json", b"{}")
    assert store.backend.current("logs/ab/x.json") == b"{}"


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Store(tmp_path / "file" / "store").prepare()


@pytest.mark.parametrize("room", [True, False])
def test_packed_arrays_are_the_librarys_with_and_without_room_for_a_file(tmp_path: Path, monkeypatch, room) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path if room else tmp_path / "gone"))
    arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.zeros((0, 3), dtype=np.float32)}
    assert packed(arrays) == safetensors.numpy.save(arrays)
    assert not list(tmp_path.iterdir())
