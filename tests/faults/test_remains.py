"""Unfinished files of an interrupted writer are removed or ignored, and two writers never interfere."""

import os
import threading
import time
from datetime import date
from pathlib import Path

import pytest
from tests.faults.forked import age, remains

import imharness.results.disk
from imharness.errors import DamagedError, StoreError
from imharness.results.disk import UNFINISHED, alone, write_whole
from imharness.results.store import Store
from imharness_leaderboard import publishing
from imharness_leaderboard.changes import FILE as RELEASES
from imharness_leaderboard.changes import Release, read_releases, releases_json
from imharness_submissions.ledger import FILE, Ledger


def test_a_later_run_removes_what_was_left_an_hour_ago(tmp_path: Path) -> None:
    Store(tmp_path).prepare()
    (tmp_path / UNFINISHED / "tree").mkdir(parents=True)
    for name in ("old", "tree/part", "new"):
        (tmp_path / UNFINISHED / name).write_bytes(b"half")
    age(tmp_path)
    os.utime(tmp_path / UNFINISHED / "new")
    Store(tmp_path).prepare()
    assert remains(tmp_path) == [f"{UNFINISHED}/new"]


def test_who_writes_and_removes_meets_no_other_that_begins(tmp_path: Path) -> None:
    """A thread prepares the store again and again, which clears unfinished files, while files are written."""
    store, over = Store(tmp_path), threading.Event()
    beginning = threading.Thread(target=lambda: [store.prepare() for _ in iter(over.is_set, True)])
    beginning.start()
    try:
        for _ in range(300):
            write_whole(tmp_path, "a/b", b"old", flushed=False)
            (tmp_path / "a" / "b").unlink()
    finally:
        over.set()
        beginning.join()


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_part(tmp_path: Path, monkeypatch) -> None:
    write_whole(tmp_path, "a/b", b"before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="the disk is full; what was finished before is kept") as raised:
        write_whole(tmp_path, "a/b", b"after")
    assert not isinstance(raised.value, DamagedError)
    assert (tmp_path / "a" / "b").read_bytes() == b"before"
    assert remains(tmp_path) == []


def test_a_line_of_the_ledger_that_was_cut_off_is_no_decision(tmp_path: Path) -> None:
    ledger, file = Ledger(tmp_path), tmp_path / FILE
    ledger.append("x", ("a/x",), "added", "for a test")
    whole = file.read_bytes()
    ledger.append("x", ("a/x",), "flagged", "for a test")
    for cut in (len(whole) + 1, len(whole) + 100, len(file.read_bytes()) - 2):
        content = file.read_bytes()
        file.write_bytes(content[:cut])
        assert [line.decision for line in ledger.lines()] == ["added"]
        ledger.append("x", ("a/x",), "flagged", "for a test")
        assert [line.decision for line in ledger.lines()] == ["added", "flagged"]
    file.write_bytes(file.read_bytes()[:-1])  # an editor took the last line break
    ledger.append("x", ("a/x",), "withdrawn", "for a test")
    assert [line.decision for line in ledger.lines()] == ["added", "flagged", "withdrawn"]


def test_a_ledger_on_a_full_disk_takes_no_half_of_a_line(tmp_path: Path, monkeypatch) -> None:
    ledger, file = Ledger(tmp_path), tmp_path / FILE
    ledger.append("x", ("a/x",), "added", "for a test")
    before = file.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device; nothing was added"):
        ledger.append("x", ("a/x",), "flagged", "for a test")
    monkeypatch.undo()
    assert file.read_bytes().rstrip(b"\n") == before.rstrip(b"\n")
    ledger.append("x", ("a/x",), "withdrawn", "for a test")
    assert [line.decision for line in ledger.lines()] == ["added", "withdrawn"]


def test_a_publication_that_was_cut_off_can_be_repeated(tmp_path: Path, monkeypatch) -> None:
    def built(store, folder: Path, releases, release: str, secret):
        now = [*releases, Release(name=release, date=date(2026, 1, 1), leaderboards={})]
        write_whole(folder, RELEASES, releases_json(now).encode())

    monkeypatch.setattr(publishing, "build_site", built)
    built(None, tmp_path, [], "one", None)  # killed before the snapshot was made
    publishing.publish_site(tmp_path, tmp_path, "one")
    assert (tmp_path / "v" / "one" / RELEASES).is_file()
    assert [release.name for release in read_releases(tmp_path)] == ["one"]
    with pytest.raises(StoreError.__mro__[1], match="published already"):
        publishing.publish_site(tmp_path, tmp_path, "one")


def test_one_process_at_a_time_holds_a_store(tmp_path: Path, monkeypatch) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with alone(tmp_path), alone(tmp_path):
                os.write(writing, b"held")
                time.sleep(0.5)
                (tmp_path / "done").touch()
        finally:
            os._exit(0)
    os.read(reading, 4)
    monkeypatch.setattr(imharness.results.disk, "WAIT_S", 0.05)
    with pytest.raises(StoreError, match="another process has been changing"), alone(tmp_path):
        pass
    monkeypatch.undo()
    with alone(tmp_path):
        assert (tmp_path / "done").exists()
    os.waitpid(child, 0)
