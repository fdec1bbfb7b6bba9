"""Several processes use one store at once: no reader misses a task, and no computed result is lost.

Most tests simulate the second process by an act in this process. `interrupted` calls the act right before the request
with a given number; `at_every_request` and `anew_meanwhile` try every number.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.core.results.records import record
from tests.rows_of import files_of

from imharness.cli import cli
from imharness.cli.stores import copy, verify
from imharness.errors import StoreError
from imharness.results.query import ResultQuery
from imharness.results.storage.local import LocalFiles
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

REQUESTS = ("put", "get", "delete", "size", "sizes", "path")
DAY = "2026-02-{:02d}"


def compute(store: Store, numbers: range, started: str = "2026-01-01") -> None:
    """Commit tasks with rows, every third with arrays, as a run does; the rows of a task are always the same."""
    for n in numbers:
        arrays = {"images": np.full((1, 3), n, np.int32)} if n % 3 == 0 else {}
        store.commit(record(n, started=started), {"name": ["a", "b"], "score": np.float32([n, n + 0.5])}, arrays)


def numbers(store: Store) -> dict[str, list[float]]:
    """Return the scores of all tasks by their keys."""
    scores = {}
    for key, stored in store.records():
        assert isinstance(stored, TaskRecord), stored
        scores[key] = store.rows(stored)["score"].tolist()
    return scores


def expected(numbers: range) -> dict[str, list[float]]:
    return {record(n).key: [n, n + 0.5] for n in numbers}


@contextmanager
def interrupted(moment: int, act: Callable[[], object]) -> Iterator[list[int]]:
    """Call `act` right before request number `moment`; yield a list with the number of requests so far."""
    requests, acting = [0], threading.local()

    def wrapped(function: Callable) -> Callable:
        def call(self: LocalFiles, *arguments: object, **named: object) -> object:
            if not getattr(acting, "now", False):
                requests[0] += 1
                if requests[0] == moment:
                    acting.now = True
                    try:
                        act()
                    finally:
                        acting.now = False
            return function(self, *arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in REQUESTS:
            patch.setattr(LocalFiles, name, wrapped(getattr(LocalFiles, name)))
        yield requests


def at_every_request(make: Callable[[], tuple[Callable[[], object], Callable[[], object]]]) -> Iterator[object]:
    """Yield what a job returns when another act happens before its first request, then before its second, and so on.

    `make` prepares a store and returns the job and the act.
    """
    moment = 0
    while True:
        moment += 1
        job, act = make()
        with interrupted(moment, act) as requests:
            outcome = job()
        yield outcome
        if requests[0] < moment:
            return


class Case:
    """Makes stores with four tasks, and computes the tasks of a store again with equal rows."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0

    def store(self) -> Store:
        """Return a new store: a copy of the files that the first call computes."""
        if not self._count:
            compute(Store(self._folder / "0"), range(4))
        self._count += 1
        return Store(shutil.copytree(self._folder / "0", self._folder / str(self._count)))

    def meanwhile(self, store: Store) -> None:
        compute(Store(store.address), range(4), DAY.format(1))


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


READERS: dict[str, tuple[Callable[[Store], object], object]] = {
    "numbers": (numbers, expected(range(4))),
    "records by key": (
        lambda store: sorted(key for key, _ in store.records(list(expected(range(4))))),
        sorted(expected(range(4))),
    ),
    "finished": (
        lambda store: store.finished(list(expected(range(4)))),
        (set(expected(range(4))), []),
    ),
    "one by one": (
        lambda store: {record(n).key: store.rows(store.record(record(n).key))["score"].tolist() for n in range(4)},
        expected(range(4)),
    ),
    "arrays": (
        lambda store: [store.arrays(store.record(record(n).key))["images"][0, 0] for n in (0, 3)],
        [0, 3],
    ),
    "verify": (lambda store: list(verify(store)), []),
    "keys": (lambda store: list(store.all_keys()), sorted(expected(range(4)))),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_misses_nothing_while_another_process_computes_again(case: Case, reader: str) -> None:
    read, wanted = READERS[reader]

    def make() -> tuple[Callable[[], object], Callable[[], object]]:
        store = case.store()
        return lambda: read(Store(store.address)), lambda: case.meanwhile(store)

    for outcome in at_every_request(make):
        assert outcome == wanted


def scores(query: ResultQuery) -> list[float]:
    return query("SELECT score FROM score ORDER BY score")["score"].tolist()


WANTED = sorted(x for pair in expected(range(4)).values() for x in pair)


def test_tables_are_made_while_another_process_computes_again(case: Case) -> None:
    def make() -> tuple[Callable[[], object], Callable[[], object]]:
        store = case.store()
        reader = Store(store.address)
        records = [record for _, record in reader.records() if isinstance(record, TaskRecord)]
        return lambda: scores(ResultQuery(reader, records)), lambda: case.meanwhile(store)

    for outcome in at_every_request(make):
        assert outcome == WANTED


def test_a_query_goes_on_when_what_it_reads_was_computed_again(case: Case) -> None:
    store = case.store()
    reader = Store(store.address)
    query = ResultQuery(reader, [record for _, record in reader.records() if isinstance(record, TaskRecord)])
    assert scores(query) == WANTED
    case.meanwhile(store)
    assert scores(query) == WANTED
    compute(store, range(6, 9))
    case.meanwhile(store)
    blocks = query.blocks(
        "SELECT name, number, score FROM score", entry="number", unit="name", by=(), measures=("score",)
    )
    assert [row.tolist() for row in blocks.values["score"][0]] == [[n, n + 0.5] for n in range(4)]


def test_rows_that_are_gone_are_named_by_a_query(tmp_path: Path) -> None:
    store = Store(tmp_path)
    compute(store, range(2))
    records = [record for _, record in store.records() if isinstance(record, TaskRecord)]
    query = ResultQuery(store, records)
    files_of(tmp_path)[0].unlink()
    with pytest.raises(StoreError, match=r"\.parquet"):
        scores(query)
    with pytest.raises(StoreError, match=r"\.parquet"):
        ResultQuery(store, records)


def test_a_copy_is_whole_while_its_source_is_computed_again(case: Case, tmp_path: Path) -> None:
    count = [0]

    def make() -> tuple[Callable[[], object], Callable[[], object]]:
        count[0] += 1
        store, target = case.store(), Store(tmp_path / f"copy{count[0]}")

        def race() -> object:
            copy(Store(store.address), target)
            return numbers(target), list(verify(target))

        return race, lambda: case.meanwhile(store)

    for outcome in at_every_request(make):
        assert outcome == (expected(range(4)), [])


def anew_meanwhile(folder: Path, spoil: Callable[[Store], object], job: Callable[[Store], object]) -> None:
    """Let a task be computed again, with other rows, at every request of a job: its new rows must be there afterwards.

    `spoil` damages the store before the job begins.
    """
    moment = 0
    while True:
        moment += 1
        store = Store(folder / str(moment))
        compute(store, range(2))
        spoil(store)
        anew = partial(
            Store(store.address).commit, record(0, started=DAY.format(1)), {"name": ["a"], "score": np.float32([9])}, {}
        )
        with interrupted(moment, anew) as requests:
            job(store)
        if requests[0] < moment:
            return
        after = Store(store.address)
        assert after.record(record(0).key).started == DAY.format(1), moment
        assert numbers(after) == {record(0).key: [9], record(1).key: [1, 1.5]}, moment
        assert list(verify(after)) == [], moment


def test_what_was_computed_since_it_was_found_damaged_is_not_thrown_away(tmp_path: Path) -> None:
    def spoil(store: Store) -> None:
        (path,) = files_of(store.root, record(0).key)
        path.write_bytes(path.read_bytes()[:-1] + b"x")

    anew_meanwhile(tmp_path, spoil, lambda store: store.finished(list(expected(range(2)))))


def test_verify_discards_nothing_that_was_computed_since_it_was_found_damaged(tmp_path: Path) -> None:
    def spoil(store: Store) -> None:
        (path,) = files_of(store.root, record(0).key)
        path.write_bytes(path.read_bytes()[:-1] + b"x")

    anew_meanwhile(tmp_path, spoil, lambda store: list(verify(store)))


def test_two_that_compute_one_task_at_once_leave_one_that_counts(tmp_path: Path) -> None:
    def make() -> tuple[Callable[[], object], Callable[[], object]]:
        store = Store(tmp_path / str(len(list(tmp_path.iterdir()))))
        compute(store, range(1))

        def race() -> Store:
            compute(store, range(1), DAY.format(1))
            return store

        return race, lambda: compute(Store(store.address), range(1), DAY.format(2))

    for store in at_every_request(make):
        before = store.record(record(0).key)
        assert store.finished([record(0).key]) == ({record(0).key}, [])
        assert store.record(record(0).key) == before
        assert len(files_of(store.root)) == 1
        assert (numbers(store), list(verify(store))) == (expected(range(1)), [])


@pytest.mark.parametrize("read_first", [False, True])
def test_a_listing_misses_no_task_that_is_replaced_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_first: bool
) -> None:
    store = Store(tmp_path)
    compute(store, range(1))
    scandir, replaced = os.scandir, list[int]()

    @contextmanager
    def replaced_meanwhile(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(folder) as entries:
            names = list(entries)
        if any(entry.name.endswith(".parquet") for entry in names) and not replaced:
            replaced.append(1)
            if read_first:
                [entry.stat() for entry in names]
            compute(store, range(1), DAY.format(1))
        yield iter(names)

    monkeypatch.setattr(os, "scandir", replaced_meanwhile)
    assert numbers(store) == expected(range(1))
    assert replaced


def test_a_link_to_nothing_in_a_store_is_no_file(tmp_path: Path) -> None:
    compute(store := Store(tmp_path), range(1))
    (tmp_path / "tasks" / "link").symlink_to(tmp_path / "nothing")
    assert numbers(store) == expected(range(1))


def test_many_that_compute_the_same_tasks_disturb_no_reader(tmp_path: Path) -> None:
    """The tests above try every moment at which one of them acts; this one lets all of them act at once."""
    rounds, tasks = 30, 5
    compute(Store(tmp_path), range(tasks))
    failures = list[BaseException]()

    def thread(job: Callable[[Store, int], None]) -> threading.Thread:
        def call() -> None:
            try:
                for turn in range(rounds):
                    job(Store(tmp_path), turn)
            except BaseException as error:
                failures.append(error)

        return threading.Thread(target=call)

    def write(store: Store, turn: int) -> None:
        compute(store, range(turn % tasks, turn % tasks + 1), DAY.format(1 + turn % 28))

    def read(store: Store, turn: int) -> None:
        assert numbers(store) == expected(range(tasks))
        assert list(verify(store)) == []

    def ask(store: Store, turn: int) -> None:
        wanted = list(expected(range(tasks)))
        assert store.finished(wanted) == (set(wanted), [])
        records = [record for _, record in store.records(wanted) if isinstance(record, TaskRecord)]
        assert scores(ResultQuery(store, records)) == sorted(x for n in range(tasks) for x in (n, n + 0.5))

    threads = [thread(job) for job in (write, write, read, ask)]
    for started_thread in threads:
        started_thread.start()
    for started_thread in threads:
        started_thread.join()
    if failures:
        raise failures[0]
    Store(tmp_path).finished(expected(range(tasks)))
    assert len(files_of(tmp_path)) == tasks


@pytest.mark.parametrize("address", ["", " ", "\t"])
def test_a_blank_address_is_no_store(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["results", "list"], ["results", "rank"], ["run", "--track", "iqa"]):
        ended = CliRunner().invoke(cli, [*command, "--store", address])
        assert ended.exit_code != 0
        message = str(ended.exception) if not isinstance(ended.exception, SystemExit) else ended.output
        assert "address" in message, message
    assert list(tmp_path.iterdir()) == []
