"""Stores on an emulator of Google Cloud Storage: they keep and verify what a store in a folder does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.results.records import bare

from imharness.cli.stores import copy, verify
from imharness.errors import DamagedError, StoreError
from imharness.results.storage import objects
from imharness.results.store import Store, file_of
from imharness_submissions.ledger import Ledger

from .object_server import BUCKET, free_port
from .test_object_server import assert_whole, images, rows

pytestmark = pytest.mark.objects


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from gcp_storage_emulator.server import create_server

    port = free_port()
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield f"gs://{BUCKET}/a/store"
    server.stop()


def test_a_store_of_google_holds_what_a_folder_holds(address: str, tmp_path: Path) -> None:
    store = Store(address)
    store.prepare()
    for number in range(4):
        store.commit(bare(number), rows(number), images(number))
    ledger = Ledger(address)
    for number in range(3):
        ledger.append(f"n{number}", ("a/x",), "added", "why")
    assert_whole(Store(address), 4)
    assert list(verify(Store(address))) == []
    assert Store(address).finished([bare(n).key for n in range(5)]) == ({bare(n).key for n in range(4)}, [])
    assert [line.name for line in Ledger(address).lines()] == ["n0", "n1", "n2"]
    here = Store(tmp_path / "here")
    assert copy(store, here) == 4
    assert_whole(here, 4)


def test_what_was_changed_there_is_noticed(address: str) -> None:
    store = Store(address)
    name = file_of(store.commit(bare(0), rows(0), images(0))).name
    content = store.backend.get(name) or b""
    half = len(content) // 2
    store.backend.put(name, content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :])
    with pytest.raises(DamagedError, match="is damaged: its sha256 is not the recorded one"):
        Store(address).record(bare(0).key)


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PAUSES_S", ())
    monkeypatch.setattr(objects, "CLIENT_TIME", objects.timedelta(seconds=1))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StoreError, match=f"cannot write gs://{BUCKET}/x"):
        Store(f"gs://{BUCKET}/x").prepare()
