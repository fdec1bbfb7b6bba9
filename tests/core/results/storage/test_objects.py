"""Stores of objects keep whole documents and every line of the ledger; here a folder replaces the cloud."""

from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest
from tests.core.results.records import bare

from imharness.cli.stores import copy, verify
from imharness.errors import DamagedError, StoreError, UsageError
from imharness.results.storage import absolute, objects, open_backend
from imharness.results.storage.files import StoredFile
from imharness.results.storage.objects import Objects, connected
from imharness.results.store import Store, file_of
from imharness.results.tasks import TaskRecord
from imharness.running.logs import keeping, log_of, log_output
from imharness_submissions.ledger import Ledger


class Cloud:
    """Replaces the client of a cloud: objects are files of a folder.

    `before` is called before each request with its kind (put, get, delete or list) and its path; it may raise or write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._files = folder, pyarrow.fs.LocalFileSystem()
        self.before = lambda request, path: None

    def open_output_stream(self, path: str):
        self.before("put", path)
        (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
        return self._files.open_output_stream(str(self._folder / path))

    def open_input_file(self, path: str):
        self.before("get", path)
        return self._files.open_input_file(str(self._folder / path))

    def delete_file(self, path: str) -> None:
        self.before("delete", path)
        self._files.delete_file(str(self._folder / path))

    def get_file_info(self, wanted):
        self.before("list", wanted if isinstance(wanted, str) else wanted.base_dir)
        if isinstance(wanted, str):
            return pyarrow.fs.FileInfo(wanted, **self._facts(self._folder / wanted))
        root = self._folder / wanted.base_dir
        # Reversed, because no caller may rely on an order.
        files = sorted((path for path in root.rglob("*") if path.is_file()), reverse=True)
        return [pyarrow.fs.FileInfo(str(path.relative_to(self._folder)), **self._facts(path)) for path in files]

    @staticmethod
    def _facts(path: Path) -> dict[str, object]:
        if not path.is_file():
            return {"type": pyarrow.fs.FileType.NotFound}
        return {"type": pyarrow.fs.FileType.File, "size": path.stat().st_size}


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    cloud_object = Cloud(tmp_path / "cloud")
    monkeypatch.setattr(objects, "connected", lambda scheme, environment: cloud_object)
    monkeypatch.setattr(objects, "PAUSES_S", (0.0, 0.0))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cloud_object


ADDRESS = "s3://bucket/path"


@pytest.mark.parametrize(
    ("endpoint", "scheme", "host"),
    [
        ("", "https", ""),
        ("http://127.0.0.1:9/", "http", "127.0.0.1:9"),
        ("cloud.example:9", "https", "cloud.example:9"),
    ],
)
def test_an_endpoint_without_a_protocol_is_asked_by_https(endpoint: str, scheme: str, host: str) -> None:
    client = connected("s3", {"AWS_ENDPOINT_URL": endpoint})
    _, (options,) = client.__reduce__()
    assert (options["scheme"], options["endpoint_override"]) == (scheme, host)


def tasks(store: Store, count: int) -> list[TaskRecord]:
    records = []
    for number in range(count):
        rows, arrays = {"score": np.arange(3.0) + number}, {"images": np.full((1, 2), number, np.uint8)}
        records.append(store.commit(bare(number), rows, arrays))
    return records


def test_a_document_is_one_whole_state_and_the_latest(cloud: Cloud) -> None:
    backend = open_backend(ADDRESS)
    assert backend.current("leaderboards/a.json") is None
    for number in range(6):
        backend.replace("leaderboards/a.json", b"%d" % number)
        assert backend.current("leaderboards/a.json") == b"%d" % number
    assert backend.documents("leaderboards") == ["leaderboards/a.json"]
    for letter in "hgfedcb":
        backend.replace(f"leaderboards/{letter}.json", b"0")
    assert backend.documents("leaderboards") == [f"leaderboards/{letter}.json" for letter in "abcdefgh"]
    states = sorted(backend.sizes("leaderboards/a.json"))
    assert len(states) == objects.STATES_KEPT
    backend.put(states[-1], b"half")
    with pytest.raises(DamagedError, match=r"leaderboards/a.json/\d+-\w+ is damaged.*results rank"):
        backend.current("leaderboards/a.json")  # the state before it must not pass for the latest


def test_a_reader_whose_state_is_replaced_meanwhile_gets_the_next_one(cloud: Cloud) -> None:
    reader, writer = open_backend(ADDRESS), open_backend(ADDRESS)
    writer.replace("sweeps/a.json", b"0")
    writes = iter(range(1, 5))

    def meanwhile(request: str, path: str) -> None:
        if request == "get":
            cloud.before = lambda request, path: None
            for number in writes:
                writer.replace("sweeps/a.json", b"%d" % number)

    cloud.before = meanwhile
    assert reader.current("sweeps/a.json") == b"4"


def test_a_clock_that_is_behind_hides_no_state(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = open_backend(ADDRESS)
    backend.replace("leaderboards/a.json", b"old")
    monkeypatch.setattr(objects.time, "time_ns", lambda: 5)
    backend.replace("leaderboards/a.json", b"new")
    assert backend.current("leaderboards/a.json") == b"new"


def test_two_who_write_into_the_ledger_at_once_lose_no_line(cloud: Cloud) -> None:
    one, two = Ledger(ADDRESS), Ledger(ADDRESS)
    one.append("a", ("a/x",), "added", "first")

    def meanwhile(request: str, path: str) -> None:
        if request == "put":
            cloud.before = lambda request, path: None
            two.append("b", ("b/x",), "added", "at the same time")

    cloud.before = meanwhile
    one.append("c", ("c/x",), "added", "at the same time")
    one.append("a", ("a/x",), "withdrawn", "last")
    lines = two.lines()
    assert [line.number for line in lines] == [1, 2, 2, 3]
    assert {line.name for line in lines} == {"a", "b", "c"}
    assert set(one.withdrawn()) == {"a/x"}


@pytest.mark.parametrize("index", [0, 1])
def test_a_line_of_the_ledger_that_is_changed_or_gone_is_noticed(cloud: Cloud, index: int) -> None:
    ledger, backend = Ledger(ADDRESS), open_backend(ADDRESS)
    for name in ("a", "b", "c"):
        ledger.append(name, (f"{name}/x",), "added", "why")
    name = sorted(backend.sizes("ledger.jsonl"))[index]
    content = backend.get(name)
    backend.put(name, content.replace(b"why", b"who"))
    with pytest.raises(StoreError, match="was changed or removed"):
        ledger.lines()
    backend.delete(name)
    with pytest.raises(StoreError, match="does not follow"):
        ledger.lines()


def test_an_object_that_is_overwritten_while_it_is_read_is_read_again(cloud: Cloud, tmp_path: Path) -> None:
    backend, name = open_backend(ADDRESS), "tasks/ab/x.json"
    backend.put(name, b"[1, 2, 3]")
    torn = iter([b"[1, 2", b"[1, 2, 3, 4"])
    path, first = tmp_path / "cloud" / "bucket" / "path" / name, b"[1, 2, 3]"

    def meanwhile(request: str, at: str) -> None:
        path.write_bytes(next(torn, first))

    cloud.before = meanwhile
    assert backend.get(name, lambda content: content.endswith(b"]")) == first


def test_a_request_that_fails_is_made_again_and_then_named(cloud: Cloud) -> None:
    backend, failures = open_backend(ADDRESS), [0]

    def flaky(request: str, path: str) -> None:
        if failures[0]:
            failures[0] -= 1
            raise OSError("AWS Error SLOW_DOWN during GetObject operation:\nreduce your rate")

    cloud.before = flaky
    calls = {
        "write": lambda: backend.put("rows/a", b"a"),
        "read": lambda: backend.get("rows/a"),
        "list": lambda: backend.sizes("rows"),
        "remove": lambda: backend.delete("rows/a"),
    }
    for what, call in calls.items():
        failures[0] = len(objects.PAUSES_S)
        call()
        failures[0] = len(objects.PAUSES_S) + 1
        with pytest.raises(StoreError, match=f"cannot {what} {ADDRESS}/rows(/a)?: AWS Error SLOW_DOWN .*reduce"):
            call()


def test_what_was_fetched_is_verified_again(cloud: Cloud, tmp_path: Path) -> None:
    backend, digest = open_backend(ADDRESS), objects.sha256_of(b"rows")
    backend.put("rows/a", b"rows")
    cached = backend.path("rows/a", digest)
    assert cached.read_bytes() == b"rows"
    backend.delete("rows/a")
    assert backend.path("rows/a", digest) == cached
    cached.write_bytes(b"rotten")
    with pytest.raises(DamagedError, match="is missing"):
        backend.path("rows/a", digest)
    backend.put("rows/a", b"other")
    with pytest.raises(DamagedError, match="is damaged"):
        backend.path("rows/a", digest)


def test_a_place_that_cannot_be_reached_removes_no_record(cloud: Cloud) -> None:
    store = Store(ADDRESS)
    (record,) = tasks(store, 1)

    requests = [("list", store.finished), ("get", lambda keys: list(store.records(keys)))]
    for unanswered, ask in requests:

        def unreachable(request: str, path: str, unanswered: str = unanswered) -> None:
            if request == unanswered:
                raise OSError("timed out")

        cloud.before = unreachable
        with pytest.raises(StoreError, match="timed out") as raised:
            ask([record.key])
        assert not isinstance(raised.value, DamagedError)
        cloud.before = lambda request, path: None
    assert store.finished([record.key]) == ({record.key}, [])


def test_a_listing_says_what_is_done_and_a_second_reader_fetches_nothing(cloud: Cloud) -> None:
    """Requests are counted, because each takes some hundredths of a second on an object store."""
    store, requests = Store(ADDRESS), list[str]()
    records = tasks(store, 5)
    cloud.before = lambda request, path: requests.append(request)
    assert Store(ADDRESS).finished([record.key for record in records])[0] == {record.key for record in records}
    assert requests == ["list", "list"]
    assert len(dict(Store(ADDRESS).records())) == 5
    requests.clear()
    assert sorted(record.seal for _, record in Store(ADDRESS).records()) == sorted(record.seal for record in records)
    assert requests == ["list", "list"]


def test_an_object_that_was_changed_is_named_and_computed_again_after_verify(cloud: Cloud) -> None:
    store = Store(ADDRESS)
    rows, arrays = tasks(store, 2)
    for name in (file_of(rows).name, arrays.arrays.file):
        store.backend.put(name, store.backend.get(name)[:-1] + b"x")
    lines = list(verify(store))
    assert [file_of(rows).name in line or arrays.arrays.file in line for line in lines] == [True, True]
    assert store.finished([rows.key, arrays.key]) == (set(), [])


def test_results_are_the_same_in_a_cloud_and_in_a_folder(cloud: Cloud, tmp_path: Path) -> None:
    here, there, back = Store(tmp_path / "here"), Store(ADDRESS), Store(tmp_path / "back")
    records = tasks(here, 6)
    Ledger(here.address).append("a", ("a/x",), "added", "why")
    here.replace("times/cpu.json", StoredFile(file="x", sha256="0", size=1))
    with keeping(here, records[0].key):
        log_output("a line")
    assert copy(here, there) == 6
    assert copy(there, back) == 6
    assert there.backend.sizes("tasks") == back.backend.sizes("tasks") == here.backend.sizes("tasks")
    for store in (there, back):
        assert list(verify(store)) == []
        assert [record for _, record in sorted(store.records())] == sorted(records, key=lambda item: item.key)
        for record in records:
            np.testing.assert_array_equal(store.rows(record)["score"], here.rows(record)["score"])
            np.testing.assert_array_equal(store.arrays(record)["images"], here.arrays(record)["images"])
        assert store.sealed("times/cpu.json") == here.sealed("times/cpu.json")
        assert log_of(store, records[0].key) == log_of(here, records[0].key)
        assert Ledger(store.address).lines() == Ledger(here.address).lines()


@pytest.mark.parametrize(
    "address", ["http://bucket/path", "s3://", "s3:///path", "s3://a/../b", "gs://a//b", "s3://a/b?c=d"]
)
def test_an_address_that_means_no_store_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match=r"s3://|gs://"):
        open_backend(address)


def test_addresses_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("store") == str(tmp_path / "store")
    assert absolute(Path("store")) == str(tmp_path / "store")
    assert absolute("S3://bucket/path/") == "s3://bucket/path"


def test_the_client_takes_its_endpoint_from_the_environment() -> None:
    general = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000/"}
    client = connected("s3", general | {"AWS_ENDPOINT_URL_S3": "https://minio.example:9000"})
    assert "minio.example:9000" in str(client.__reduce__())
    assert "127.0.0.1:9000" in str(connected("s3", general).__reduce__())
    assert isinstance(Objects("gs://a/b", connected("gs", {}), "a/b"), Objects)


def test_a_build_of_arrow_without_the_client_of_google_reads_other_stores(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(pyarrow.fs, "GcsFileSystem")
    Store(ADDRESS).prepare()
