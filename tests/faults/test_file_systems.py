"""On a full, read-only or flaky file system a command ends with one clear line; later the same command succeeds."""

import json
import shutil
from pathlib import Path

import pytest
from tests.faults.failing import FLAKY, FULL, READ_ONLY, failing
from tests.faults.forked import STUDY, digests

from imharness.cli.stores import verify
from imharness.results.store import Store
from imharness_submissions.ledger import Ledger

RUN = ("run", "--all", "--profile", "study.toml", "--device", "cpu", "--json", "--limit", "2", "--workers", "0")
CHANGING = {
    ("run", FULL): RUN,
    ("rank", READ_ONLY): ("results", "rank"),
    ("build", FULL): ("site", "build"),
    ("publish", READ_ONLY): ("site", "publish", "--to", "site", "--release", "one"),
    ("decide", FULL): ("submissions", "decide", "x", "flagged", "--reason", "a test"),
    ("export", READ_ONLY): ("results", "export", "--rows", "--format", "csv", "--to", "site/export"),
}
READING = {
    "list": ("results", "list"),
    "verify": ("results", "verify"),
    "ledger": ("submissions", "ledger"),
    "rank": ("results", "rank"),
    "build": ("site", "build"),
    "export": ("results", "export", "--rows", "--format", "csv", "--to", "export"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, harness_here) -> Path:
    """A folder with a finished store and the ledger of a submission."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "study.toml").write_text(STUDY)
    done = harness_here(*RUN, cwd=folder)
    assert done.returncode == 0, done.stderr
    Ledger(folder / "store").append("x", ("a/x",), "added", "for a test", manifest={"package": {}})
    ranked = harness_here("results", "rank", cwd=folder)  # tables say how many decisions there are
    assert ranked.returncode == 0, ranked.stderr
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


@pytest.mark.parametrize(("name", "error"), CHANGING, ids=lambda value: str(value))
def test_what_cannot_be_written_is_named_and_goes_on_later(folder: Path, name: str, error: int, harness_here) -> None:
    words, store = CHANGING[name, error], Store(folder / "store")
    before = digests(store.root)
    shutil.rmtree(folder / "site")
    for key in list(store.all_keys())[::2] if name == "run" else ():
        store.forget(key)
    if name == "rank":
        with failing(folder, error):
            assert harness_here(*words, cwd=folder).returncode == 0  # tables that hold are not written again
        shutil.rmtree(store.root / "leaderboards")
    with failing(folder, error) as failed:
        check_one_line(harness_here(*words, cwd=folder), words)
    assert failed
    done = harness_here(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert digests(store.root) == before
    assert list(verify(store)) == []


@pytest.mark.parametrize("name", READING)
def test_what_cannot_be_read_is_named_and_nothing_is_thrown_away(folder: Path, name: str, harness_here) -> None:
    words, before = READING[name], {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    with failing(folder / "store", FLAKY, writes_only=False):
        done = harness_here(*words, cwd=folder)
    assert done.returncode in (1, 2), done
    assert "Traceback" not in done.stdout + done.stderr
    assert "Input/output error" in done.stderr + done.stdout
    assert before.items() <= {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}.items()


def test_a_flaky_file_system_loses_nothing_that_is_finished(folder: Path, harness_here) -> None:
    store, ended = Store(folder / "store"), []
    before, keys = digests(store.root), set(store.all_keys())
    store.forget(min(keys))
    for seed in range(5):
        records = set(store.all_keys())
        with failing(store.root, FLAKY, writes_only=False, share=0.03, seed=seed) as failed:
            done = harness_here(*RUN, cwd=folder)
        if done.returncode:
            check_one_line(done, RUN)
            assert failed
        ended.append(done.returncode)
        assert records <= set(store.all_keys())
    assert 1 in ended, "no run met an error"
    done = harness_here(*RUN, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == {}
    assert (digests(store.root), set(store.all_keys())) == (before, keys)


def test_a_slow_file_system_changes_nothing(folder: Path, harness_here) -> None:
    store = Store(folder / "store")
    before = digests(store.root)
    store.forget(max(store.all_keys()))
    with failing(store.root, FLAKY, share=0.0, slow_s=0.002):
        done = harness_here("results", "rank", cwd=folder)
        assert done.returncode == 0, done.stderr
    assert harness_here(*RUN, cwd=folder).returncode == 0
    assert digests(store.root) == before
