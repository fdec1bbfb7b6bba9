"""`harness run --executor ray` on this machine: killed, interrupted, repeated."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import install
from tests.rows_of import files_of, rows_of

from imharness.components.registry import installed
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.running.executor import open_executor
from imharness.running.sweep import execute

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]

ONLY = {
    "attack": ["square[queries=60]"],
    "metric": ["embedded-cnn"],
    "defense": ["none", "flip", "acme/holding"],
    "dataset": ["harness/severity-ladder[severities=[3],size=48]"],
}
LIMIT = 3
MARK = "HARNESS_TEST_RAY"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a defense that keeps a run from its end, for this process and those that it starts."""
    (tmp_path / "site-packages").mkdir()
    folder = install(tmp_path / "site-packages", "acme-holding")
    monkeypatch.syspath_prepend(str(folder))
    installed.cache_clear()
    yield folder
    installed.cache_clear()


def started(folder: Path, packages: Path, mark: str, hold: int = 0) -> subprocess.Popen[str]:
    """Start a run as a terminal does: in a group of processes of its own, with the usual effect of SIGINT.

    A process that a shell starts in the background ignores SIGINT, and so do its children. Once `hold` tasks are
    finished, the defense acme/holding keeps the run from its end.
    """
    environment = {
        "PYTHONPATH": str(packages),
        MARK: mark,
        "HARNESS_TEST_HOLD": f"{hold}:{folder / 'store'}" if hold else "",
    }
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    words = ["run", "--track", "iqa", "--limit", str(LIMIT), "--device", "cpu", "--json", "--executor", "ray"]
    words += ["--ray-address", "local", "--memory-per-worker", "0.4", "--workers", "2"]
    words += [word for kind, names in ONLY.items() for name in names for word in (f"--{kind}", name)]
    return subprocess.Popen(
        [sys.executable, "-c", "from imharness.cli import main; main()", *words],
        cwd=folder,
        text=True,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=heed,
    )


def done(folder: Path) -> int:
    return len(files_of(folder / "store"))


def reached(folder: Path, tasks: int, process: subprocess.Popen[str]) -> None:
    """Wait until so many tasks are done."""
    until = time.monotonic() + 900
    while done(folder) < tasks:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "no task was done"
        time.sleep(0.05)


def left_behind(mark: str, but: str = "-") -> list[str]:
    """Wait until the processes of a run have ended; return those that stay, but programs with `but` in their names."""
    until = time.monotonic() + 300
    while (
        processes := [words for words in _marked(mark) if but not in words.split(" ")[0]]
    ) and time.monotonic() < until:
        time.sleep(0.2)
    return processes


def told(err: str) -> list[str]:
    """Return the lines of a run's log but that of its first tables, which a slow enough run has before its end."""
    return [line for line in err.splitlines() if line and not line.startswith("first tables of ")]


def _marked(mark: str) -> list[str]:
    command_lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                command_lines.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return command_lines


def test_a_run_that_is_killed_then_interrupted_then_repeated_ends_with_the_rows_of_a_local_one(
    tmp_path: Path, packages: Path
) -> None:
    mark = uuid.uuid4().hex
    killed = started(tmp_path, packages, mark, hold=1)
    reached(tmp_path, 1, killed)
    killed.kill()
    killed.communicate()
    assert left_behind(mark, "Agent") == []  # Ray's agents on a node stay until they have missed it for a minute

    before, mark = done(tmp_path), uuid.uuid4().hex
    interrupted = started(tmp_path, packages, mark, hold=before + 1)
    reached(tmp_path, before + 1, interrupted)
    os.killpg(interrupted.pid, signal.SIGINT)
    out, err = interrupted.communicate(timeout=900)
    assert interrupted.returncode == 130
    assert (out, told(err)) == ("", ["interrupted; everything finished is kept"])
    assert left_behind(mark) == []

    before = done(tmp_path)
    repeated = started(tmp_path, packages, mark)
    out, err = repeated.communicate(timeout=900)
    assert repeated.returncode == 0, err
    assert told(err) == []
    facts = json.loads(out)
    assert before <= facts["reused"] + 2  # each worker may have had rows without their record yet
    assert facts["reused"] < facts["tasks"] == facts["done"]
    assert left_behind(mark) == []

    graph = plan_track("harness/iqa", load_profile("embedded"), installed(), only=ONLY, limit=LIMIT)
    alone = tmp_path / "x"
    start = lambda: open_executor(alone, devices=["cpu"], workers=0)  # noqa: E731
    assert not execute([graph], Store(alone), start).failed
    assert rows_of(tmp_path / "store") == rows_of(alone)
