"""A result exists whole or not at all; damage is named in one line and costs nothing else."""

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from tests.core.results.records import record
from tests.rows_of import files_of, rows_of

from imharness.cli.stores import verify
from imharness.errors import StoreError
from imharness.results.storage import sha256_of
from imharness.results.storage.files import packed
from imharness.results.storage.taskfiles import TaskFile, content_of, rows_in
from imharness.results.store import Store
from imharness.results.sweeps import Sweep
from imharness_submissions.ledger import Ledger

ROWS = {"name": ["a", "b"], "score": np.array([0.5, 1.5], dtype=np.float32)}
ARRAYS = {"images": np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    store.prepare()
    for number in range(3):
        store.commit(record(number), ROWS, ARRAYS)
    return store


def test_what_went_in_comes_out(store: Store) -> None:
    stored = store.record(record().key)
    assert stored is not None
    assert stored.n_rows == 2
    rows, arrays = store.rows(stored), store.arrays(stored)
    assert rows["name"].tolist() == ["a", "b"]
    np.testing.assert_array_equal(rows["score"], ROWS["score"])
    np.testing.assert_array_equal(arrays["images"], ARRAYS["images"])
    assert list(verify(store)) == []


def test_the_same_result_gives_the_same_bytes_and_replaces_the_one_before(store: Store) -> None:
    (path,) = files_of(store.root, record().key)
    before = path.read_bytes()
    assert store.commit(record(), ROWS, ARRAYS).number == 2
    (again,) = files_of(store.root, record().key)
    assert again != path
    assert again.read_bytes() == before
    assert len(store.backend.sizes("artifacts")) == 3


def test_what_is_computed_again_takes_its_arrays_along(store: Store) -> None:
    other = {"images": ARRAYS["images"] + 1}
    stored = store.commit(record(), ROWS, other)
    assert len(store.backend.sizes("artifacts")) == 3
    np.testing.assert_array_equal(store.arrays(stored)["images"], other["images"])
    store.commit(record(), ROWS, {})
    assert len(store.backend.sizes("artifacts")) == 2


def test_of_two_files_the_later_counts_and_the_next_run_removes_the_other(store: Store) -> None:
    """A process that ends after it wrote the second file, and before it removed the first, leaves both."""
    (path,) = files_of(store.root, record().key)
    first = path.read_bytes()
    last = store.commit(record().model_copy(update={"seconds": 9.0}), ROWS, ARRAYS)
    path.write_bytes(first)
    assert store.record(last.key) == dict(store.records())[last.key] == last
    assert store.finished([last.key]) == ({last.key}, [])
    assert len(files_of(store.root, last.key)) == 1


def test_equal_rows_have_equal_digests_whatever_else_is_in_the_file(store: Store) -> None:
    first = store.record(record().key)
    other = store.commit(record(5).model_copy(update={"seconds": 9.0}), ROWS, {})
    assert first.rows == other.rows != ""
    assert first.seal != other.seal
    assert set(rows_of(store.root).values()) == {first.rows}
    failed = store.commit(record(6).model_copy(update={"status": "failed"}), {}, {})
    assert (failed.rows, failed.n_rows, store.rows(failed)) == ("", 0, {})


def test_a_file_of_another_task_or_version_is_named(store: Store) -> None:
    (path,) = files_of(store.root, record(0).key)
    content = path.read_bytes()
    path.unlink()
    other = TaskFile(record(8).key, 1, "arrays", path.name.split(".")[3])
    store.backend.put(other.name, content)
    with pytest.raises(StoreError, match="is of another task"):
        store.record(record(8).key)
    content = content_of(rows_in(content), b'{"key": "old"}')
    old = TaskFile(record(9).key, 1, "done", sha256_of(content))
    store.backend.put(old.name, content)
    with pytest.raises(StoreError, match="another version of the harness wrote it"):
        store.record(record(9).key)


def test_truncated_arrays_are_named(store: Store) -> None:
    (path,) = (store.root / "artifacts").rglob(f"{record().key}.*")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreError, match="missing or truncated"):
        store.record(record().key)


def test_a_full_disk_keeps_what_was_finished(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match="the disk is full; what was finished before is kept"):
        store.commit(record(9), ROWS, ARRAYS)
    monkeypatch.undo()
    assert store.record(record(9).key) is None
    assert not [p for p in store.root.rglob(".*") if p.is_file()]
    assert len(list(store.all_keys())) == 3


def test_only_what_cannot_be_made_again_waits_for_the_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    store.commit(record(7), ROWS, ARRAYS)
    store.backend.replace("logs/ab/x.json", b"{}")
    assert flushed == []
    store.backend.replace("submissions/x.json", b"{}")
    Ledger(store.address).append("a", ("a/x",), "added", "why")
    assert len(flushed) == 2


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


def test_tables_are_whole_while_the_arrays_of_their_tasks_alone_are_as_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "arrays")
    store.commit(record(0), ROWS, ARRAYS)
    store.commit(record(1), ROWS, {})
    store.commit(record(2), ROWS, {"images": ARRAYS["images"] + 1})
    facts = {"track": "acme/t", "title": "", "measures": "", "profile": "p", "seed": 0, "limit": None, "command": ""}
    keys = [record(number).key for number in range(4)]  # of the last there is no file

    def whole(*numbers: int) -> bool:
        tasks = {str(number): keys[number] for number in numbers}
        return store.has_arrays(Sweep(**facts, finished="", missing=(), tasks=tasks), store.survey())

    assert whole(0, 1, 2)
    assert whole(0, 1, 3)
    assert whole(1, 3)
    name = next(name for name in store.backend.sizes("artifacts") if keys[2] in name)
    path = store.root / name
    content = path.read_bytes()
    path.write_bytes(b"\0" + content[1:])
    assert not whole(0, 2)
    assert whole(0, 1)
    path.unlink()
    assert not whole(0, 2)
    assert whole(0, 1)
