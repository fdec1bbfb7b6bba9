"""What a store returns is what was written: one flipped bit is named, and no result comes of it."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.core.ranking.sweeping import sweep_of
from tests.core.results.records import record
from tests.core.results.test_store import ARRAYS, ROWS
from tests.rows_of import files_of

from imharness.cli import cli
from imharness.cli.stores import copy, verify
from imharness.documents.entries import Examined
from imharness.errors import DamagedError, StoreError
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.results.tasks import Failure, TaskRecord
from imharness_submissions.ledger import Ledger

DOCUMENT = "examined/e.json"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    store.prepare()
    for number in range(2):
        store.commit(record(number), ROWS, ARRAYS)
    store.replace(DOCUMENT, Examined(kind="defense", label="acme/x", code="0" * 64, failed=("fails",)))
    for name in ("acme/x", "acme/y"):
        Ledger(store.address).append(name, (name,), "flagged", "why")
    return store


def flipped(content: bytes, position: int) -> bytes:
    changed = bytearray(content)
    changed[position // 8] ^= 1 << position % 8
    return bytes(changed)


def each_flip(path: Path) -> Iterator[None]:
    """Flip each bit of a file in turn."""
    content = path.read_bytes()
    for position in range(8 * len(content)):
        path.write_bytes(flipped(content, position))
        yield
    path.write_bytes(content)


def test_no_bit_of_a_document_can_be_flipped_unnoticed(store: Store) -> None:
    for _ in each_flip(store.root / DOCUMENT):
        with pytest.raises(DamagedError, match=r"examined/e\.json was changed"):
            store.current(DOCUMENT, Examined)


def test_no_bit_of_a_record_can_be_flipped_unnoticed(store: Store) -> None:
    key = record().key
    (path,) = files_of(store.root, key)
    for _ in each_flip(path):
        with pytest.raises(DamagedError, match=f"{path.name} is damaged"):
            store.record(key)


def test_no_bit_of_the_ledger_takes_a_decision_away_or_changes_one(store: Store) -> None:
    """Also not of the last line: a last line that was cut off is ignored, one that was changed must not be."""
    ledger = Ledger(store.address, key="")
    before = ledger.lines()
    for _ in each_flip(store.root / "ledger.jsonl"):
        with suppress(DamagedError):
            assert ledger.lines() == before


def test_a_last_line_that_was_cut_off_anywhere_is_no_decision(store: Store) -> None:
    path = store.root / "ledger.jsonl"
    content, ledger = path.read_bytes(), Ledger(store.address)
    first = content.index(b"\n") + 1
    for end in range(first, len(content) - 1):
        path.write_bytes(content[:end])
        assert len(ledger.lines()) == 1


def damaged(store: Store, folder: str) -> tuple[Path, bytes]:
    """Flip a bit in a file of the first task, whose size and time stay; return the file and what was in it."""
    key = record().key
    (path,) = (store.root / folder).rglob(f"{key}.*")
    content, facts = path.read_bytes(), path.stat()
    path.write_bytes(flipped(content, 4 * len(content)))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return path, content


@pytest.mark.parametrize("folder", ["artifacts", "tasks"])
@pytest.mark.parametrize("verified", [True, False])
def test_what_is_damaged_counts_as_missing_and_comes_back_as_it_was(store: Store, folder: str, verified: bool) -> None:
    key, other = record(0).key, record(1).key
    path, content = damaged(store, folder)
    if verified:
        (line,) = verify(store)
        assert str(path) in line
        assert store.finished([key, other]) == ({other}, [])
    else:
        done, (line,) = store.finished([key, other])
        assert done == {other}
        assert str(path) in line
        assert store.record(key) is None
    again = store.commit(record(0), ROWS, ARRAYS)
    assert content in [file.read_bytes() for file in (store.path_of(again.arrays), *files_of(store.root, key))]
    assert list(verify(store)) == []


def readers(store: Store) -> dict[str, Callable[[], object]]:
    records = [entry for _, entry in store.records() if isinstance(entry, TaskRecord)]
    first = next(entry for entry in records if entry.key == record().key)
    return {
        "rows": lambda: store.rows(first),
        "a record": lambda: store.record(first.key),
        "its path": lambda: store.row_files([first]),
        "a query": lambda: ResultQuery(store, records),
        "a copy": lambda: copy(store, Store(store.root / ".." / "copy")),
    }


def test_rows_are_hashed_by_whatever_reads_them(store: Store) -> None:
    questions = readers(store)
    path, _ = damaged(store, "tasks")
    for name, ask in questions.items():
        with pytest.raises(DamagedError, match="is damaged") as raised:
            ask()
        assert path.name in str(raised.value), name


def test_what_is_changed_while_tables_are_made_is_named_and_not_in_the_words_of_a_library(store: Store) -> None:
    records = [record for _, record in store.records() if isinstance(record, TaskRecord)]
    query = ResultQuery(store, records)
    path, content = damaged(store, "tasks")
    path.write_bytes(b"\0" * len(content))
    with pytest.raises(DamagedError, match=f"{path.name} is damaged"):
        query("SELECT avg(score) AS s FROM score")


def test_a_copy_replaces_what_is_damaged_in_its_target(store: Store, tmp_path: Path) -> None:
    target = Store(tmp_path / "copy")
    copy(store, target)
    paths = [damaged(target, folder)[0] for folder in ("tasks", "artifacts")]
    document = target.root / DOCUMENT
    document.write_bytes(flipped(document.read_bytes(), 77))
    copy(store, target)
    for path in (*paths, document):
        assert path.read_bytes() == (store.root / path.relative_to(target.root)).read_bytes()


def test_of_stores_that_were_computed_apart_a_result_counts_before_a_failure_and_stays(tmp_path: Path) -> None:
    """Files of one number were once ordered by name: a failure replaced a result, and a run deleted the result."""
    store, failed, computed, other = (Store(tmp_path / name) for name in ("store", "failed", "computed", "other"))
    store.commit(record(0), ROWS, ARRAYS)
    memory = Failure(who="harness", error="MemoryError", message="no room")
    failed.commit(record(0).model_copy(update={"status": "failed", "failure": memory}), {}, {})
    computed.commit(record(0, "2026-01-02"), ROWS, ARRAYS)
    other.commit(record(0), ROWS | {"score": ROWS["score"] + 1}, ARRAYS)
    for first, second, differ in (
        (store, failed, False),
        (failed, store, False),
        (store, computed, False),
        (store, other, True),
        (other, store, True),
    ):
        target, differing = Store(tmp_path / f"{first.root.name}-{second.root.name}"), list[str]()
        for each in (first, second, second):
            copy(each, target, differing=differing.append)
        stored = target.record(key := record().key)
        assert stored is not None
        assert stored.status == "done"
        assert (target.rows(stored)["score"][0] == 1.5) == (first is other)
        assert target.finished([key]) == ({key}, [])
        assert differing == [key, key] * differ
    for name in ("other", "store"):
        ran = CliRunner().invoke(cli, ["results", "copy", str(tmp_path / name), str(tmp_path / "both")])
        assert ran.exit_code == 0
        assert f"{'1 task' if name == 'other' else '0 tasks'} copied" in ran.output
        assert ("1 task has other rows in" in " ".join(ran.output.split())) == (name == "store")
    again = other.commit(record(0), ROWS | {"score": ROWS["score"] + 2}, ARRAYS)  # as `--fresh` does
    copy(other, target := Store(tmp_path / "store-other"))
    assert target.record(again.key) == again


def test_a_configuration_that_two_stores_ran_has_the_tasks_of_both(tmp_path: Path) -> None:
    """Once, the copied configuration silently replaced the target's, and no table had the target's tasks any more."""
    store, target = Store(tmp_path / "store"), Store(tmp_path / "target")
    for each, numbers in ((store, (0, 1)), (target, (1, 2, 3))):
        records = [each.commit(record(number), ROWS, {}) for number in numbers]
        each.save_sweep(sweep_of("acme/t", records))
    ran = store.sweep("acme/t", "r")
    assert ran is not None
    store.save_sweep(ran.model_copy(update={"failed": {record(3).key: "no room"}}))
    for _ in range(2):
        copy(store, target)
        joined = target.sweep("acme/t", "r")
        assert joined is not None
        assert list(joined.tasks) == [record(number).key for number in (0, 1, 2)]
    copy(store, alone := Store(tmp_path / "alone"))
    assert alone.sealed("sweeps/acme--t/r.json") == store.sealed("sweeps/acme--t/r.json")


def test_nothing_is_copied_beside_another_ledger(store: Store, tmp_path: Path) -> None:
    target = Store(tmp_path / "copy")
    target.backend.append("ledger.jsonl", lambda lines: b"of another store")
    with pytest.raises(StoreError, match="has a ledger of its own; copy into another store"):
        copy(store, target)
    assert not list(target.all_keys())


def test_a_damaged_document_or_ledger_is_not_copied(store: Store, tmp_path: Path) -> None:
    path = store.root / DOCUMENT
    path.write_bytes(flipped(content := path.read_bytes(), 77))
    with pytest.raises(DamagedError, match=r"examined/e\.json"):
        copy(store, Store(tmp_path / "copy"))
    path.write_bytes(content)
    ledger = store.root / "ledger.jsonl"
    ledger.write_bytes(flipped(ledger.read_bytes(), 800))
    with pytest.raises(DamagedError, match=r"ledger\.jsonl: line"):
        copy(store, Store(tmp_path / "copy"))
    (line,) = verify(store)
    assert "ledger.jsonl: line" in line


def test_results_that_cannot_be_discarded_are_named_all_the_same(store: Store, monkeypatch) -> None:
    path, _ = damaged(store, "tasks")

    def refused(self, name: str) -> None:
        raise StoreError(f"cannot remove {name}")

    monkeypatch.setattr(type(store.backend), "delete", refused)
    (line,) = verify(store)
    assert str(path) in line
    assert "it is still there: cannot remove" in line
