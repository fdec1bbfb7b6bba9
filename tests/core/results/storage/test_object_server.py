"""Stores on an object server whose connection fails in each way of `FAULTS`: no result is lost or read in part."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.core.results.records import bare

from imharness.cli import cli
from imharness.cli.stores import copy, verify
from imharness.documents.stored import read_leaderboard
from imharness.errors import StoreError
from imharness.results.storage import objects
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness.running.logs import keeping, keys_of_logs, log_of
from imharness_submissions.ledger import Ledger

from .object_server import BUCKET, FAULTS, BadConnection, object_server

pytestmark = pytest.mark.objects


@pytest.fixture(scope="module")
def server() -> Iterator[BadConnection]:
    with object_server() as address:
        yield address


@pytest.fixture
def connection(server: BadConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BadConnection]:
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "key",
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    server.every, server.faults, server.met = 0, FAULTS, dict.fromkeys(FAULTS, 0)
    yield server
    server.every = 0


def rows(number: int) -> dict[str, object]:
    return {"name": [f"{n}.png" for n in range(50)], "score": np.arange(50.0) + number}


def images(number: int) -> dict[str, np.ndarray]:
    return {"images": np.random.default_rng(number).integers(0, 256, (1, 3, 32, 32), np.uint8)}


def assert_whole(store: Store, count: int) -> None:
    records = dict(sorted(store.records()))
    assert list(records) == [bare(n).key for n in range(count)]
    for number, record in enumerate(records.values()):
        assert isinstance(record, TaskRecord), record
        assert {name: list(column) for name, column in store.rows(record).items()} == {
            name: list(column) for name, column in rows(number).items()
        }
        np.testing.assert_array_equal(store.arrays(record)["images"], images(number)["images"])


def test_whatever_happens_to_the_connection_nothing_is_lost(connection: BadConnection, tmp_path: Path) -> None:
    """Every fifth request meets a fault, each time the next one of `FAULTS`."""
    connection.every = 5
    store = Store(f"s3://{BUCKET}/faults")
    store.prepare()
    for number in range(4):
        store.commit(bare(number), rows(number), images(number))
    ledger = Ledger(store.address)
    for number in range(3):
        ledger.append(f"n{number}", ("a/x",), "added", "why")
    assert_whole(Store(store.address), 4)
    assert list(verify(Store(store.address))) == []
    assert Store(store.address).finished([bare(n).key for n in range(5)]) == ({bare(n).key for n in range(4)}, [])
    assert [line.name for line in Ledger(store.address).lines()] == ["n0", "n1", "n2"]
    here = Store(tmp_path / "here")
    assert copy(store, here) == 4
    assert_whole(here, 4)
    assert min(connection.met.values()) > 0


@pytest.mark.parametrize("fault", ["failed", "reset before", "reset after", "half a request"])
def test_a_server_that_never_answers_publishes_no_half_object(
    connection: BadConnection, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(objects, "PAUSES_S", ())
    monkeypatch.setattr(objects, "CLIENT_TRIES", 2)
    store = Store(f"s3://{BUCKET}/{fault.replace(' ', '-')}")
    connection.every, connection.faults = 1, (fault,)
    with pytest.raises(StoreError, match="cannot write s3://"):
        store.commit(bare(0), rows(0), images(0))
    connection.every = 0
    again = Store(store.address)
    assert again.record(bare(0).key) is None
    assert again.finished([bare(0).key]) == (set(), [])
    again.commit(bare(0), rows(0), images(0))
    assert_whole(again, 1)


def test_an_upload_in_parts_that_breaks_off_publishes_nothing(
    connection: BadConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "PAUSES_S", ())
    monkeypatch.setattr(objects, "CLIENT_TRIES", 1)
    fault = connection.fault
    monkeypatch.setattr(connection, "fault", lambda line: "failed" if "partNumber=2" in line else fault(line))
    backend = Store(f"s3://{BUCKET}/parts").backend
    with pytest.raises(StoreError, match="cannot write"):
        backend.put("artifacts/large", bytes(25 << 20))
    assert backend.size("artifacts/large") == -1


def test_a_run_into_an_object_store_gives_the_rows_of_a_run_into_a_folder(
    connection: BadConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By commands alone: run in a worker, verify, rank, reproduce, build the site, run again and copy the store."""
    monkeypatch.chdir(tmp_path)

    def harness(*words: str) -> str:
        done = CliRunner().invoke(cli, list(words))
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    there, here = f"s3://{BUCKET}/run", str(tmp_path / "here")
    selected = ["--dataset", "harness/severity-ladder[size=192]", "--metric", "mse", "--attack", "square"]
    words = ["run", "--track", "perceptual", *selected, "--limit", "6", "--device", "cpu", "--json"]
    facts = json.loads(harness(*words, "--workers", "1", "--store", there))
    assert facts["done"] == facts["tasks"] > 0
    assert (tmp_path / "site" / "index.html").is_file()
    harness(*words, "--workers", "0", "--store", here)
    one, other = Store(there), Store(here)
    keys = list(other.all_keys())
    assert list(one.all_keys()) == keys
    for key in keys:
        mine, theirs = one.record(key), other.record(key)
        assert mine is not None
        assert theirs is not None
        assert (mine.rows, mine.arrays) == (theirs.rows, theirs.arrays)
    harness("results", "verify", "--store", there)
    harness("results", "rank", "--store", there)
    harness("reproduce", "harness/mse", "--sample", "1", "--store", there, "--device", "cpu")
    assert [line.decision for line in Ledger(there).lines()] == ["reproduced"]
    harness("site", "build", "--store", there)
    again = json.loads(harness(*words, "--workers", "0", "--store", there))
    assert again["reused"] == facts["tasks"]
    harness("results", "copy", there, str(tmp_path / "copied"))
    assert read_leaderboard(Store(tmp_path / "copied"), "harness/perceptual") == read_leaderboard(
        one, "harness/perceptual"
    )


def test_logs_are_kept_and_found_by_the_first_digits_of_a_key(connection: BadConnection) -> None:
    store, key = Store(f"s3://{BUCKET}/logs-of-tasks"), "ab" * 32
    connection.every = 3
    for word in ("first", "second"):
        with keeping(store, key):
            sys.stdout.write(f"{word} try\n")
    log = log_of(store, key)
    assert log is not None
    assert log.text == "second try\n"
    assert keys_of_logs(store, "abab") == keys_of_logs(store, "a") == [key]
    assert not list(store.all_keys())
