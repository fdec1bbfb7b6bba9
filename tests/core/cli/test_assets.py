"""Tests of `harness assets get` and `harness assets import` with a small Location30 from a server on this machine.

`server.breaks` lists after how many bytes the next connections end; `server.asked` lists the Range headers received.
"""

import errno
import fcntl
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.small_server import Server

from imharness.cli import assets, cli, download
from imharness.components.inputs import importing
from imharness.components.registry import installed
from imharness.contracts.assets import Asset, cache_folder
from imharness.data import DataSource
from imharness.errors import HarnessError, UsageError
from imharness_membership.datasets import location30

PROFILE = """
name = "small"
description = "For a test."
[tracks."harness/membership".select]
dataset = ["location30", "mnist"]
model = ["mlp"]
defense = ["plain-training"]
evaluator = ["confidence"]
"""
ROWS = 60
"""Number of rows of the small Location30."""


def rows(columns: int = 446) -> bytes:
    """Return a file in Location30's layout: in each line a quoted class from 1 to 30, then `columns` quoted bits."""
    bits = np.random.default_rng(0).integers(0, 2, (ROWS, columns))
    lines = [
        ",".join([f'"{number % 30 + 1}"', *(f'"{bit}"' for bit in row_bits)]) for number, row_bits in enumerate(bits)
    ]
    return ("\n".join(lines) + "\n").encode()


def archive(content: bytes, name: str = "bangkok") -> bytes:
    """Return a .tgz archive with one file; Location30's file is called bangkok."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def server(empty_places: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve Location30 with ROWS rows; downloads are retried without a pause, and all folders of assets are empty."""
    monkeypatch.setattr(download, "PAUSE_S", 0.0)
    monkeypatch.setattr(location30, "SOURCE", location30.SOURCE.model_copy(update={"units": ROWS}))
    downloads = DataSource.downloads
    with Server() as web_server:
        web_server.content = archive(rows())

        def local(source: DataSource) -> list[Asset]:
            return [asset.model_copy(update={"address": web_server.address}) for asset in downloads(source)]

        monkeypatch.setattr(DataSource, "downloads", local)
        thread = threading.Thread(target=web_server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield web_server
        web_server.shutdown()
        thread.join()


def call(*words: str) -> Result:
    """Run `harness assets` with these words."""
    return CliRunner().invoke(cli, ["assets", *words])


def test_a_profile_is_fetched_unpacked_and_what_is_left_is_told(server: Server, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(PROFILE)
    server.breaks = [len(server.content) // 2]  # the first connection ends after half of the file
    result = call("get", "--profile", str(tmp_path / "small.toml"))
    assert result.exit_code == 0, result.output
    assert str(cache_folder() / "location30") in result.output
    assert "To be fetched by hand" in result.output
    assert "mnist" in result.output
    assert server.asked == ["", f"bytes={len(server.content) // 2}-"]
    built = installed().one("dataset", "location30").build("cpu")
    assert built.features.shape == (ROWS, 446)
    assert json.loads((cache_folder() / "location30" / "imported.json").read_text()).keys() == {"dataset_location.tgz"}
    assert not list((cache_folder() / "downloads").rglob("*.tgz"))
    assert call("get", "location30").exit_code == 0
    assert len(server.asked) == 2  # what is here is not asked for again


def test_a_web_page_in_place_of_an_archive_is_not_taken(server: Server, tmp_path: Path) -> None:
    server.content = b"<html>sign in</html>"
    (tmp_path / "small.toml").write_text(PROFILE)
    result = call("get", "--profile", str(tmp_path / "small.toml"))
    assert result.exit_code == 1
    assert "Not fetched" in result.output
    assert not (cache_folder() / "location30").exists()
    assert not list((cache_folder() / "downloads").rglob("*.tgz"))


def test_an_archive_that_came_whole_is_not_fetched_again_when_another_broke_off(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = location30.SOURCE.archives[0]
    both = (first, first.model_copy(update={"file": "notes.tgz"}))
    monkeypatch.setattr(location30, "SOURCE", location30.SOURCE.model_copy(update={"archives": both}))
    server.breaks = [len(server.content), 0]  # the first archive arrives whole, the second without a byte
    assert isinstance(call("get", "location30").exception, HarnessError)
    server.content = archive(b"nothing", name="notes")
    assert call("get", "location30").exit_code == 0
    assert server.asked == ["", "", ""]


def test_what_was_downloaded_by_hand_is_imported(server: Server, tmp_path: Path) -> None:
    (tmp_path / "dataset_location.tgz").write_bytes(archive(rows()))
    result = call("import", "location30", str(tmp_path / "dataset_location.tgz"))
    assert result.exit_code == 0, result.output
    assert "sha256" in result.output
    assert str(tmp_path / "shelf" / "location30") in result.output
    assert installed().one("dataset", "location30").is_here()
    assert not cache_folder().exists()
    assert server.asked == []
    (tmp_path / "bangkok").write_bytes(rows(columns=40))
    wrong = call("import", "location30", str(tmp_path / "bangkok"))
    assert isinstance(wrong.exception, UsageError)
    assert str(wrong.exception).endswith("its rows have the shape (40,); the published ones have (446,).")


def test_imports_go_to_the_cache_where_no_listed_folder_can_be_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dataset_location.tgz").write_bytes(archive(rows()))
    (tmp_path / "file").touch()
    for listed in (str(tmp_path / "file" / "inside"), ""):
        monkeypatch.setenv("HARNESS_ASSETS", listed)
        result = call("import", "location30", str(tmp_path / "dataset_location.tgz"))
        assert str(cache_folder() / "location30") in result.output


def test_what_came_whole_stays_when_unpacking_it_is_interrupted(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("imharness.components.inputs.importing.import_data", interrupted)
        assert call("get", "location30").exit_code != 0
    assert len(list((cache_folder() / "downloads").rglob("*.tgz"))) == 1
    assert call("get", "location30").exit_code == 0
    assert server.asked == [""]
    assert not list((cache_folder() / "downloads").rglob("*.tgz"))


def test_a_kept_file_that_is_damaged_is_fetched_anew(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256, downloads = hashlib.sha256(server.content).hexdigest(), DataSource.downloads
    (archive,) = location30.SOURCE.archives
    published = location30.SOURCE.model_copy(update={"archives": (archive.model_copy(update={"sha256": sha256}),)})
    monkeypatch.setattr(location30, "SOURCE", published)
    (asset,) = downloads(published)
    cached_file = cache_folder() / asset.file
    cached_file.parent.mkdir(parents=True)
    cached_file.write_bytes(server.content[:-9])
    assert call("get", "location30").exit_code == 0
    assert server.asked == [""]
    assert not cached_file.exists()


def test_what_somebody_else_removed_after_the_import_is_no_error(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = importing.import_data

    def beside(source: DataSource, files: Sequence[Path], check: importing.Check) -> object:
        result = taken(source, files, check)
        for file in files:
            file.unlink()  # somebody else is done with it
        return result

    monkeypatch.setattr(importing, "import_data", beside)
    assert call("get", "location30").exit_code == 0


def test_the_second_that_gets_the_same_waits_for_the_first_and_downloads_nothing(server: Server) -> None:
    download_folder, ended = cache_folder() / assets.GETTING / "location30", list[Result]()
    download_folder.mkdir(parents=True)
    second = threading.Thread(target=lambda: ended.append(call("get", "location30")))
    with (download_folder / ".lock").open("w") as lock:  # the first process locks this file while it downloads
        fcntl.flock(lock, fcntl.LOCK_EX)
        second.start()
        second.join(1.0)
        assert second.is_alive()
        assert server.asked == []
        assets._fetch(assets._known(None)["location30"])
        assert server.asked == [""]
    second.join()
    assert ended[0].exit_code == 0, ended[0].output
    assert ended[0].output.count("another process is getting location30") == 1
    assert str(cache_folder() / "location30") in ended[0].output
    assert server.asked == [""]


def test_the_second_goes_on_where_the_first_ended_without_it(server: Server) -> None:
    download_folder, ended = cache_folder() / assets.GETTING / "location30", list[Result]()
    download_folder.mkdir(parents=True)
    second = threading.Thread(target=lambda: ended.append(call("get", "location30")))
    with (download_folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second.start()
        second.join(0.2)
    second.join()
    assert ended[0].exit_code == 0, ended[0].output
    assert server.asked == [""]
    assert installed().one("dataset", "location30").is_here()


def test_a_full_disk_is_not_said_to_be_an_archive_that_is_cut_off(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("imharness.components.inputs.archives._write", full)
        error = call("get", "location30").exception
    assert "the disk with" in str(error)
    assert "is full" in str(error)
    assert "cut off" not in str(error)
    assert call("get", "location30").exit_code == 0
    assert server.asked == [""]


def test_one_import_at_a_time_puts_a_data_set_into_its_place(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dataset_location.tgz").write_bytes(archive(rows()))
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setattr("imharness.results.disk.WAIT_S", 0.2)
    with (shelf / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        error = call("import", "location30", str(tmp_path / "dataset_location.tgz")).exception
    assert "another process has been changing" in str(error)
    assert not (shelf / "location30").exists()
    assert call("import", "location30", str(tmp_path / "dataset_location.tgz")).exit_code == 0


def test_a_component_in_the_place_of_an_asset_names_its_files() -> None:
    result = call("get", "lpips")
    assert result.exit_code != 0
    assert "lpips is no asset; what it needs is alexnet-imagenet" in str(result.exception or result.output)
