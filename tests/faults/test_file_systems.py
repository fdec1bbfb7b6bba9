"""A full, read-only, slow or flaky file system costs one clear line; after it, the same command goes on."""

import json
import shutil
from pathlib import Path

import pytest
from tests.faults.failing import FLAKY, FULL, READ_ONLY, failing
from tests.faults.forked import STUDY, digests

from imharness.results.store import Store
from imharness_submissions.ledger import Ledger

RUN = ("run", "--all", "--profile", "study.toml", "--device", "cpu", "--json", "--limit", "4", "--workers", "0")
CHANGING = {
    "run": RUN,
    "rank": ("results", "rank"),
    "site": ("site", "build"),
    "publish": ("site", "publish", "--to", "site", "--release", "one"),
    "decide": ("submissions", "decide", "x", "flagged", "--reason", "a test"),
    "export": ("results", "export", "--format", "csv", "--out", "site/export"),
}
READING = {
    "list": ("results", "list"),
    "verify": ("results", "verify"),
    "ledger": ("submissions", "ledger"),
    **{name: CHANGING[name] for name in ("rank", "site", "export")},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, harness_here) -> Path:
    """A folder with a finished store and the ledger of a submission."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "study.toml").write_text(STUDY)
    done = harness_here(*RUN, cwd=folder)
    assert done.returncode == 0, done.stderr
    Ledger(folder / "store").append("x", ("a/x",), "added", "for a test", manifest={"package": {}})
    shutil.rmtree(folder / "site")
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def check_one_line(done, words: tuple[str, ...]) -> None:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode in (1, 2), (words, done)
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(("error: ", "usage: ")), lines
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("error", [FULL, READ_ONLY], ids=["full", "read-only"])
@pytest.mark.parametrize("name", CHANGING)
def test_what_cannot_be_written_is_named_and_goes_on_later(folder: Path, name: str, error: int, harness_here) -> None:
    words, before = CHANGING[name], digests(folder / "store")
    if name == "run":  # half of it is done already
        for key in list(Store(folder / "store").all_keys())[::2]:
            Store(folder / "store").forget(key)
    with failing(folder, error) as failed:
        check_one_line(harness_here(*words, cwd=folder), words)
    assert failed
    done = harness_here(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert digests(folder / "store") == before
    assert list(Store(folder / "store").verify()) == []


@pytest.mark.parametrize("name", READING)
def test_what_cannot_be_read_is_named_and_nothing_is_thrown_away(folder: Path, name: str, harness_here) -> None:
    words, before = READING[name], {p: p.read_bytes() for p in (folder / "store").rglob("*") if p.is_file()}
    with failing(folder / "store", FLAKY, writes_only=False):
        done = harness_here(*words, cwd=folder)
    assert done.returncode in (1, 2), done
    assert "Traceback" not in done.stdout + done.stderr
    assert "Input/output error" in done.stderr + done.stdout
    assert {p: p.read_bytes() for p in (folder / "store").rglob("*") if p.is_file()} == before
    assert harness_here(*words, cwd=folder).returncode == 0


def test_a_flaky_file_system_loses_nothing_that_is_finished(folder: Path, harness_here) -> None:
    store, ended = folder / "store", []
    Store(store).forget(next(Store(store).all_keys()))
    for seed in range(12):
        before = digests(store)
        records = set(Store(store).all_keys())
        with failing(store, FLAKY, writes_only=False, share=0.01, seed=seed) as failed:
            done = harness_here(*RUN, cwd=folder)
        if done.returncode:
            check_one_line(done, RUN)
            assert failed
        ended.append(done.returncode)
        assert before.items() <= digests(store).items()
        assert records <= set(Store(store).all_keys())
    assert 1 in ended, "no run met an error"
    done = harness_here(*RUN, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == {}
