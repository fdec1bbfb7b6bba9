"""Packed cells read like single files; whoever is stopped while packing loses nothing; damage is named."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.faults.failing import FLAKY, failing

from imharness.cli import stores
from imharness.cli.stores import compact, copy, verify
from imharness.errors import DamagedError, StoreError
from imharness.planning.plan import Task
from imharness.results.identity import ComponentRef, digest
from imharness.results.query import ResultQuery
from imharness.results.storage.local import LocalFiles
from imharness.results.storage.segments import Cell, write_segment
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.sweep import RunResult, finished_before


def record(number: int, step: str = "score", status: str = "done", started: str = "2026-01-01") -> TaskRecord:
    metric = ComponentRef(kind="metric", id="acme/m", version="1", label="acme/m", parameters={})
    spec = TaskSpec(
        track="acme/t",
        step=step,
        version="1",
        components={"metric": metric},
        options={"number": number},
        limit=None,
        seed=0,
        needs={},
    )
    return TaskRecord(
        key=digest(spec.identity()), spec=spec, status=status, started=started, seconds=1.0, device="cpu", versions={}
    )


def fill(store: Store, numbers: range) -> None:
    """Commit cells of three forms: rows of one schema, rows of another with arrays, neither; and a failed one."""
    for n in numbers:
        if n % 4 == 0:
            store.commit(record(n), {"name": ["a", "b"], "score": np.float32([n, n + 0.5])}, {})
        elif n % 4 == 1:
            rows = {"name": ["a"], "score": np.float64([n]), "extra": np.array([n])}
            store.commit(record(n), rows, {"images": np.full((1, 3), n, np.uint8)})
        elif n % 4 == 2:
            store.commit(record(n, step="fit"), {}, {"weights": np.float32([n])})
        else:
            store.commit(record(n, status="failed"), {}, {})


def content(store: Store, *, query: bool = True) -> dict[str, object]:
    """Return all that a reader can ask for."""
    found: dict[str, object] = {}
    for key, own in sorted(store.records()):
        assert isinstance(own, TaskRecord), own
        assert store.record(key) == own
        columns = {**store.rows(own), **store.arrays(own)}
        found[key] = (own, {name: (values.dtype.str, values.tolist()) for name, values in columns.items()})
    if not query:
        return found
    records = [own for own, _ in found.values() if own.spec.step == "score" and own.rows is not None]
    rows = ResultQuery(store, records)("SELECT * EXCLUDE (filename) FROM score ORDER BY ALL")
    found["query"] = {name: [str(value) for value in values] for name, values in rows.items()}
    return found


def files(store: Store, folder: str) -> list[str]:
    return sorted(store.backend.sizes(folder))


def test_packed_cells_read_like_single_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "CELLS", 8)
    store = Store(tmp_path)
    fill(store, range(40))
    before = content(store)
    assert compact(store) == 30
    assert content(store) == content(Store(tmp_path)) == before
    assert len(files(store, "tasks")) == 10  # those that failed
    assert files(store, "rows") == []
    assert len(files(store, "artifacts")) == 20
    fill(store, range(40, 60))
    mixed = content(store)
    assert len(mixed) == 61
    assert compact(store) == 15
    assert content(store) == content(Store(tmp_path)) == mixed
    names = files(store, "segments")
    assert compact(store) == 0
    assert files(store, "segments") == names
    assert list(verify(store)) == []


def test_what_cannot_be_read_is_never_taken_for_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, range(8))
    compact(store)
    fill(store, range(8, 12))
    before = content(store)
    keys, packed, single = list(before)[:-1], record(0), record(8)
    with_rows = [before[own.key][0] for own in (packed, single)]
    asked = {
        "finished": lambda own: own.finished(keys),
        "records": lambda own: list(own.records(keys)),
        "a packed record": lambda own: own.record(packed.key),
        "a single record": lambda own: own.record(single.key),
        "row files": lambda own: own.row_files(with_rows),
        "verify": lambda own: list(verify(own)),
        "pack": compact,
    }
    for name, ask in asked.items():
        for suffix in ("", "segments"):
            if suffix and name == "a single record":
                continue
            with failing(tmp_path / suffix, FLAKY, writes_only=False), pytest.raises(StoreError) as raised:
                ask(Store(tmp_path))
            assert not isinstance(raised.value, DamagedError), name
    for seed in range(20):
        with failing(tmp_path, FLAKY, writes_only=False, share=0.02, seed=seed), suppress(StoreError):
            assert Store(tmp_path).finished(keys)[1] == []
    assert content(Store(tmp_path)) == before


class Stopped(Exception):
    pass


def test_whoever_is_stopped_while_packing_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "CELLS", 4)
    store = Store(tmp_path)
    fill(store, range(8))
    compact(store)
    fill(store, range(8, 16))
    before, moments = content(store, query=False), [0]

    def counted(function):
        def call(self, *args):
            if not moments[0]:
                raise Stopped
            moments[0] -= 1
            return function(self, *args)

        return call

    for name in ("put", "delete", "remove"):
        monkeypatch.setattr(LocalFiles, name, counted(getattr(LocalFiles, name)))
    for moment in range(100):  # each call gets a little further than the one before it
        moments[0] = moment
        try:
            compact(Store(tmp_path))
            break
        except Stopped:
            assert content(Store(tmp_path), query=False) == before
            assert content(store, query=False) == before  # a reader that looked before
    assert moment > 8
    assert content(Store(tmp_path), query=False) == before
    assert files(store, "rows") == []


def test_a_reader_finds_what_was_packed_again_since_it_looked(tmp_path: Path) -> None:
    store, reader = Store(tmp_path), Store(tmp_path)
    fill(store, range(4))
    compact(store)
    before, survey = content(store, query=False), reader.survey()
    fill(store, range(4, 8))
    compact(store)
    assert dict(survey.contents(before, reader.is_sound)) == {
        key: store.segments.record(key) or store.backend.get(f"tasks/{key[:2]}/{key}.json") for key in before
    }
    stale = Store(tmp_path)
    stale.segments.refresh()
    fill(store, range(8, 12))
    compact(store)
    for key, (own, _) in before.items():
        assert stale.rows(own).keys() == store.rows(own).keys()
        assert stale.record(key) == own


def test_a_result_that_is_computed_anew_counts_more_than_its_segment(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, range(8))
    compact(store)
    old = store.record(record(0).key)
    new = store.commit(record(0, started="2026-02-02"), {"name": ["a"], "score": np.float32([9])}, {})
    for reader in (store, Store(tmp_path)):
        assert reader.record(new.key) == new != old
        assert reader.rows(new)["score"].tolist() == [9]
    compact(store)
    for reader in (store, Store(tmp_path)):
        assert reader.record(new.key) == new
        assert reader.rows(new)["score"].tolist() == [9]
    assert sum(segment.keys.count(new.key) for segment in store.segments.all) == 1


@pytest.mark.parametrize("part", ["rows", "index"])
@pytest.mark.parametrize("how", ["changed", "cut", "gone"])
def test_a_damaged_segment_is_named_and_its_cells_are_computed_again(tmp_path: Path, part: str, how: str) -> None:
    store = Store(tmp_path)
    fill(store, range(0, 8, 4))
    compact(store)
    (path,) = (tmp_path / "segments").rglob(f"*.{part}.parquet")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged if how == "changed" else damaged[:-1])
    if how == "gone":
        path.unlink()
    store = Store(tmp_path)
    lines = list(verify(store))
    done, warnings = store.finished([record(0).key, record(4).key])
    if (part, how) == ("index", "gone"):
        assert done == set()
        return
    assert len(lines) == 1
    assert str(path) in lines[0]
    if (part, how) == ("rows", "changed"):  # its size fits: whoever reads it, finds it
        with pytest.raises(StoreError, match="is damaged"):
            store.rows(store.record(record(0).key))
    else:
        assert (done, warnings) == (set(), lines)


def test_lost_arrays_of_a_packed_cell_are_computed_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, range(1, 10, 4))
    compact(store)
    gone = record(1).key
    (tmp_path / "artifacts" / gone[:2] / f"{gone}.safetensors").unlink()
    done, lines = Store(tmp_path).finished([record(n).key for n in (1, 5, 9)])
    assert done == {record(5).key, record(9).key}
    assert len(lines) == 1
    assert gone in lines[0]
    with pytest.raises(StoreError, match="missing or truncated"):
        Store(tmp_path).record(gone)


def test_a_copy_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = Store(tmp_path / "from"), Store(tmp_path / "to")
    fill(source, range(8))
    compact(source)
    fill(source, range(8, 16))
    put, left = LocalFiles.put, [5]

    def counted(self: LocalFiles, name: str, own: bytes) -> None:
        if not left[0]:
            raise Stopped
        left[0] -= 1
        put(self, name, own)

    monkeypatch.setattr(LocalFiles, "put", counted)
    with pytest.raises(Stopped):
        copy(source, target)
    assert all(isinstance(own, TaskRecord) for _, own in target.records())
    assert list(verify(target)) == []
    left[0] = 1000
    copy(source, target)
    assert content(target) == content(source)
    left[0] = 0
    assert copy(source, target) == 0


def test_a_damaged_source_is_not_copied(tmp_path: Path) -> None:
    source = Store(tmp_path / "from")
    fill(source, range(1))
    key = record(0).key
    path = tmp_path / "from" / "rows" / key[:2] / f"{key}.parquet"
    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="is damaged"):
        copy(source, Store(tmp_path / "to"))
    assert list(Store(tmp_path / "to").all_keys()) == []


def test_packed_tasks_are_found_without_reading_their_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m benchmarks records` says how long many take."""
    store, keys = Store(tmp_path), [digest(n) for n in range(3 * stores.CELLS)]
    rows, text = pa.table({"score": [0.5]}), record(0).sealed().model_dump_json(indent=1).encode()
    for start in range(0, len(keys), stores.CELLS):
        cells = [Cell(key, key, "2026-01-01", text, rows, "", 0) for key in keys[start : start + stores.CELLS]]
        write_segment(store.backend, "acme--t/score", cells)
    spec = record(0).spec
    tasks = {key: Task(key, key, spec) for key in keys}
    monkeypatch.setattr(Store, "opened", lambda *_: pytest.fail("a record was read"))
    outcome = RunResult()
    finished_before(Store(tmp_path), tasks, outcome)
    assert outcome.done == set(keys)
    assert outcome.reused == len(keys)
