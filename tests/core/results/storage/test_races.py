"""What several processes do to a store at once: whoever reads, packs or computes meanwhile loses nothing.

A fault between two requests is tried at every request: `interrupted` lets another process act right before one, and
the caller goes through all of them.
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
from tests.core.results.storage.test_objects import ADDRESS, Cloud, cloud  # noqa: F401
from tests.core.results.storage.test_segments import record

from imharness.cli import cli
from imharness.cli.stores import compact, copy, verify
from imharness.errors import StoreError
from imharness.results.query import ResultQuery
from imharness.results.storage.local import LocalFiles
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

REQUESTS = ("put", "get", "delete", "remove", "size", "sizes", "path")
DAY = "2026-02-{:02d}"


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine loses its power here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def compute(store: Store, numbers: range, started: str = "2026-01-01") -> None:
    """Commit cells with rows, every third with arrays, as a run does; the rows of a cell are always the same."""
    for n in numbers:
        arrays = {"images": np.full((1, 3), n, np.int32)} if n % 3 == 0 else {}
        store.commit(record(n, started=started), {"name": ["a", "b"], "score": np.float32([n, n + 0.5])}, arrays)


def numbers(store: Store) -> dict[str, list[float]]:
    """Return the scores of all cells by their keys."""
    found = {}
    for key, own in store.records():
        assert isinstance(own, TaskRecord), own
        found[key] = store.rows(own)["score"].tolist()
    return found


def expected(numbers: range) -> dict[str, list[float]]:
    return {record(n).key: [n, n + 0.5] for n in numbers}


@contextmanager
def interrupted(moment: int, act: Callable[[], object]) -> Iterator[list[int]]:
    """Let something else happen right before one request to a folder, once; yield how many requests there were."""
    asked, acting = [0], threading.local()

    def wrapped(function: Callable) -> Callable:
        def call(self: LocalFiles, *given: object, **named: object) -> object:
            if not getattr(acting, "now", False):
                asked[0] += 1
                if asked[0] == moment:
                    acting.now = True
                    try:
                        act()
                    finally:
                        acting.now = False
            return function(self, *given, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in REQUESTS:
            patch.setattr(LocalFiles, name, wrapped(getattr(LocalFiles, name)))
        yield asked


def at_every_request(make: Callable[[], tuple[Callable[[], object], Callable[[], object]]]) -> Iterator[object]:
    """Yield what work returns when something else happens before its first request, its second, and so on.

    `make` prepares a store and returns the work and what happens meanwhile.
    """
    moment = 0
    while True:
        moment += 1
        work, act = make()
        with interrupted(moment, act) as asked:
            found = work()
        yield found
        if asked[0] < moment:
            return


def computed(folder: Path) -> Store:
    """Return a store with a small segment and new cells."""
    store = Store(folder)
    compute(store, range(2))
    compact(store)
    compute(store, range(2, 4))
    return store


class Case:
    """Stores with a small segment and new cells; what another process does to one packs both together."""

    def __init__(self, folder: Path, *, anew: bool) -> None:
        self._folder, self._anew, self._count = folder, anew, 0

    def store(self) -> Store:
        """Return a store of its own: a copy of the files of one that was computed once."""
        if not self._count:
            computed(self._folder / "0")
        self._count += 1
        return Store(shutil.copytree(self._folder / "0", self._folder / str(self._count)))

    def meanwhile(self, store: Store) -> None:
        other = Store(store.address)
        if self._anew:
            compute(other, range(4), DAY.format(1))
        compact(other)


@pytest.fixture(params=[False, True], ids=["packed", "computed anew and packed"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(tmp_path, anew=request.param)


def test_cells_computed_anew_keep_their_rows_when_they_are_packed_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for round in range(1, 4):
        compute(store, range(6), DAY.format(round))
        compact(store)
        assert numbers(Store(tmp_path)) == numbers(store) == expected(range(6))
        assert list(verify(Store(tmp_path))) == []
        assert Store(tmp_path).finished(expected(range(6))) == (set(expected(range(6))), [])
    assert len(store.segments.all) == 1  # those that were replaced are gone, with their rows
    assert len(store.backend.sizes("segments")) == 2


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
@pytest.mark.parametrize("before", [False, True], ids=["new", "has looked before"])
def test_a_reader_misses_nothing_while_another_process_packs(case: Case, reader: str, before: bool) -> None:
    read, wanted = READERS[reader]

    def make() -> tuple[Callable[[], object], Callable[[], object]]:
        store = case.store()
        reading = Store(store.address)
        if before:
            reading.survey()
        return lambda: read(reading), lambda: case.meanwhile(store)

    for found in at_every_request(make):
        assert found == wanted


def scores(query: ResultQuery) -> list[float]:
    return query("SELECT score FROM score ORDER BY score")["score"].tolist()


WANTED = sorted(x for pair in expected(range(4)).values() for x in pair)


def test_tables_are_made_while_another_process_packs(case: Case) -> None:
    def make() -> tuple[Callable[[], object], Callable[[], object]]:
        store = case.store()
        reader = Store(store.address)
        records = [own for _, own in reader.records() if isinstance(own, TaskRecord)]
        return lambda: scores(ResultQuery(reader, records)), lambda: case.meanwhile(store)

    for found in at_every_request(make):
        assert found == WANTED


def test_a_query_goes_on_when_what_it_reads_was_packed(case: Case) -> None:
    store = case.store()
    reader = Store(store.address)
    query = ResultQuery(reader, [own for _, own in reader.records() if isinstance(own, TaskRecord)])
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
    records = [own for _, own in store.records() if isinstance(own, TaskRecord)]
    query = ResultQuery(store, records)
    (tmp_path / records[0].rows.file).unlink()
    with pytest.raises(StoreError, match=r"\.parquet"):
        scores(query)
    with pytest.raises(StoreError, match=r"\.parquet"):
        ResultQuery(store, records)


def test_a_copy_is_whole_while_its_source_is_packed(case: Case, tmp_path: Path) -> None:
    count = [0]

    def make() -> tuple[Callable[[], object], Callable[[], object]]:
        count[0] += 1
        store, target = case.store(), Store(tmp_path / f"copy{count[0]}")

        def work() -> object:
            copy(Store(store.address), target)
            return numbers(target), list(verify(target))

        return work, lambda: case.meanwhile(store)

    for found in at_every_request(make):
        assert found == (expected(range(4)), [])


def anew_meanwhile(folder: Path, spoil: Callable[[Store], object], work: Callable[[Store], object]) -> None:
    """Let a cell be computed anew, with other rows, at every request of some work; its new rows must be there then."""
    moment = 0
    while True:
        moment += 1
        store = Store(folder / str(moment))
        compute(store, range(2))
        spoil(store)
        anew = partial(
            Store(store.address).commit, record(0, started=DAY.format(1)), {"name": ["a"], "score": np.float32([9])}, {}
        )
        with interrupted(moment, anew) as asked:
            work(store)
        if asked[0] < moment:
            return
        after = Store(store.address)
        assert after.record(record(0).key).started == DAY.format(1), moment
        assert numbers(after) == {record(0).key: [9], record(1).key: [1, 1.5]}, moment
        assert list(verify(after)) == [], moment


def test_a_copy_has_the_record_whose_rows_a_segment_holds_with_an_earlier_one(tmp_path: Path) -> None:
    """So it is when a cell was computed anew while its equal rows were packed."""
    source, target = Store(tmp_path / "source"), Store(tmp_path / "target")
    source.prepare()
    compute(source, range(2))
    earlier = dict(source.records())
    compact(source)
    compute(source, range(2), "2026-01-02")
    for own in earlier.values():
        (tmp_path / "source" / own.rows.file).unlink()
    copy(source, target)
    assert {key: own.started for key, own in target.records()} == {key: own.started for key, own in source.records()}
    assert {own.started for _, own in target.records()} == {"2026-01-02"}
    assert numbers(target) == numbers(source)
    assert list(verify(target)) == []


def test_cells_computed_anew_while_they_are_packed_stay(tmp_path: Path) -> None:
    anew_meanwhile(tmp_path, lambda store: None, compact)


def test_what_was_computed_since_it_was_found_damaged_is_not_thrown_away(tmp_path: Path) -> None:
    def spoil(store: Store) -> None:
        store.backend.delete(store.record(record(0).key).rows.file)

    anew_meanwhile(tmp_path, spoil, lambda store: store.finished(list(expected(range(2)))))


def test_a_second_process_that_packs_ends_with_one_line(tmp_path: Path) -> None:
    store = computed(tmp_path)
    lines: list[str] = []

    def second() -> None:
        with pytest.raises(StoreError, match="another process is packing") as raised:
            compact(Store(store.address))
        lines.append(str(raised.value))
        ended = CliRunner().invoke(cli, ["results", "compact", "--store", store.address])
        assert isinstance(ended.exception, StoreError)

    with interrupted(3, second):
        assert compact(store) == 2
    assert len(lines) == 1
    assert "\n" not in lines[0]
    assert numbers(Store(store.address)) == expected(range(4))
    assert compact(Store(store.address)) == 0  # nobody holds it any more


def test_two_that_pack_objects_at_once_lose_nothing(cloud: Cloud) -> None:  # noqa: F811
    """An object store has no locks."""
    moment = 0
    while True:
        moment += 1
        address, asked = f"{ADDRESS}/{moment}", [0]
        store = Store(address)
        compute(store, range(2))
        compact(store)
        compute(store, range(2, 4))

        def before(request: str, path: str, asked: list[int] = asked, address: str = address, at: int = moment) -> None:
            asked[0] += 1
            if asked[0] == at:
                compute(Store(address), range(1), DAY.format(1))
                compact(Store(address))

        cloud.before = before
        compact(store)
        cloud.before = lambda request, path: None
        assert numbers(Store(address)) == expected(range(4)), moment
        assert list(verify(Store(address))) == [], moment
        compact(Store(address))
        assert numbers(Store(address)) == expected(range(4)), moment
        if asked[0] < moment:
            return


def test_a_hundred_packing_passes_disturb_nobody(tmp_path: Path) -> None:
    """One packs; for each pass, others write a new cell and one anew; two read all the time. Each has its own store.

    The tests above try every moment at which one of them acts; this one lets all of them act at once.
    """
    passes, cells = 105, 5
    compute(Store(tmp_path), range(cells))
    ended, failures = threading.Event(), list[BaseException]()
    turns = {"new": threading.Semaphore(2), "anew": threading.Semaphore(2)}
    numbered = {"new": iter(range(cells, cells + passes)), "anew": iter(range(passes))}

    def thread(work: Callable[[Store], None]) -> threading.Thread:
        def call() -> None:
            store = Store(tmp_path)
            try:
                while not ended.is_set() and not failures:
                    work(store)
                    ended.wait(0.01)
            except BaseException as error:
                failures.append(error)

        return threading.Thread(target=call)

    def write(store: Store) -> None:
        if turns["new"].acquire(timeout=0.1) and (n := next(numbered["new"])) % 10 == 0:
            compute(store, range(n, n + 1))

    def write_anew(store: Store) -> None:
        if turns["anew"].acquire(timeout=0.1):
            n = next(numbered["anew"])
            compute(store, range(n % cells, n % cells + 1), DAY.format(1 + n // cells))

    def read(store: Store) -> None:
        found, wanted = numbers(store), expected(range(cells))
        assert {key: found.get(key) for key in wanted} == wanted
        assert list(verify(store)) == []

    def ask(store: Store) -> None:
        fresh, wanted = Store(tmp_path), list(expected(range(cells)))
        assert fresh.finished(wanted) == (set(wanted), [])
        records = [own for _, own in store.records(wanted) if isinstance(own, TaskRecord)]
        assert scores(ResultQuery(store, records)) == sorted(x for n in range(cells) for x in (n, n + 0.5))

    threads, packed = [thread(work) for work in (write, write_anew, read, ask)], 0
    for own in threads:
        own.start()
    try:
        for _ in range(passes - 5):
            if failures:
                break
            packed += compact(Store(tmp_path))
            for turn in turns.values():
                turn.release()
    finally:
        ended.set()
        for own in threads:
            own.join()
    if failures:
        raise failures[0]
    assert packed > passes / 2
    kept = numbers(Store(tmp_path))
    assert kept == {record(n).key: [n, n + 0.5] for n in range(cells + passes) if record(n).key in kept}
    assert len(kept) > cells
    assert list(verify(Store(tmp_path))) == []


@pytest.mark.parametrize("address", ["", " ", "\t"])
def test_a_blank_address_is_no_store(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["results", "list"], ["results", "rank"], ["results", "compact"], ["run", "--track", "iqa"]):
        ended = CliRunner().invoke(cli, [*command, "--store", address])
        assert ended.exit_code != 0
        said = str(ended.exception) if not isinstance(ended.exception, SystemExit) else ended.output
        assert "address" in said, said
    assert list(tmp_path.iterdir()) == []
