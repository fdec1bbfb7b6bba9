"""Commands in processes of their own that report their phase, so that a test can cause a fault at a known moment.

Each is forked from a process that has imported the harness, which saves seconds of every start. That process has
computed nothing: a process forked after gradients were computed on another device than the CPU can compute none.
"""

import contextlib
import functools
import hashlib
import itertools
import json
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.forking import ending, import_all, offer_server_of_workers
from tests.rows_of import rows_of

import imharness.planning.plan
import imharness.running.local
import imharness.running.session
import imharness_leaderboard.pages
from imharness.cli import main
from imharness.results.disk import UNFINISHED
from imharness_submissions.sandbox.processes import tree

PHASES = ("planning", "attack", "evaluation", "ranking", "publishing", "training", "submission", "annotation")
STUDY = """
name = "study"
description = "One attack, one network, a few small photographs."
batch_size = 8
time_limit_s = 300
[tracks."harness/iqa"]
select = { dataset = ["harness/severity-ladder[severities=[3],size=32]"], metric = ["embedded-cnn"], attack = ["ifgsm", "square"], defense = ["none", "random-noise"] }
options = { samples = 2, strengths = ["strong"] }
parameters."harness/square" = { queries = 20 }
"""  # noqa: E501


MOMENTS = 4096
"""How many commands can report their phase."""
RUNNING = -1000
"""The answer for a process that has not ended; no exit code has this value."""


class Moment:
    """The phase of a process and how many phases it has entered, in memory that outlives it."""

    _shared = mmap.mmap(-1, 16 * MOMENTS)

    def __init__(self, number: int) -> None:
        self._place = slice(16 * number, 16 * number + 16)

    def enter(self, phase: str) -> None:
        self._shared[self._place] = struct.pack("qq", PHASES.index(phase), self.count + 1)

    @property
    def phase(self) -> str:
        return PHASES[struct.unpack("qq", self._shared[self._place])[0]]

    @property
    def count(self) -> int:
        return int(struct.unpack("qq", self._shared[self._place])[1])


class Forks:
    """The process from which commands are forked. It answers requests line by line, and ends with this process."""

    def __init__(self) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork() == 0:
            with ending():
                os.close(self._requests)
                for line in os.fdopen(requests):
                    os.write(answers, f"{_answer(json.loads(line))}\n".encode())
        self._lines = os.fdopen(self._answers)

    def ask(self, **request: object) -> int:
        """Return the answer to a request: the id of a new process, or the exit code of one, or `RUNNING`."""
        os.write(self._requests, f"{json.dumps(request)}\n".encode())
        return int(self._lines.readline())


@functools.cache
def forks() -> Forks:
    """Return the process that commands of this one are forked from."""
    return Forks()


def _answer(request: dict[str, Any]) -> int:
    """Start a command and return its process id, or return the exit code of a process or `RUNNING`."""
    if "pid" in request:
        pid, status = os.waitpid(request["pid"], os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else RUNNING
    _prepared()
    pid = os.fork()
    if pid == 0:
        _become(**request)
    return pid


_prepared = functools.cache(import_all)


def _become(
    words: Sequence[str], folder: str, log: str, phase: str | None, number: int, environment: Mapping[str, str]
) -> None:
    with ending():
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, 1)
        os.dup2(opened, 2)
        sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False) for fd in (1, 2))  # not those of tests
        offer_server_of_workers()
        moment = Moment(number)
        moment.enter(phase or "planning")
        if phase is None:
            _tell(moment)
        sys.argv = ["harness", *words]
        main()


class Command:
    """`harness WORDS` in a process group of its own. `phase`: its only phase; None: the command reports its phases."""

    _numbers = itertools.count()

    def __init__(self, words: Sequence[str], folder: Path, log: Path, phase: str | None = None) -> None:
        number = next(self._numbers)
        self.moment, self.log, self.code = Moment(number), log, -1
        self._ended = False
        self.pid = forks().ask(
            words=list(words),
            folder=str(folder),
            log=str(log),
            phase=phase,
            number=number,
            environment=dict(os.environ),
        )

    @property
    def ended(self) -> bool:
        if not self._ended:
            code = forks().ask(pid=self.pid)
            self._ended = code != RUNNING
            self.code = code if self._ended else -1
        return self._ended

    def wait(self, until: Callable[[], bool] = lambda: False, seconds: float = 400.0) -> bool:
        """Wait until something is true, and say whether it is; the end of the process ends the wait, too."""
        end = time.monotonic() + seconds
        while not self.ended and not until():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.log}: still running after {seconds:g} s")
            time.sleep(0.005)
        return not self.ended

    def processes(self) -> dict[int, str]:
        """Return the process and its descendants with their start times, which differ from those of later processes."""
        return {pid: start for pid in tree(self.pid) if (start := started(pid))}

    def workers(self) -> list[int]:
        """Return the processes that compute tasks."""
        return [pid for pid in tree(self.pid) if _parent(pid) != self.pid and "forkserver" in _line(pid)]

    def servers(self) -> list[int]:
        """Return the process that workers are forked from."""
        return [pid for pid in tree(self.pid) if _parent(pid) == self.pid and "forkserver" in _line(pid)]

    def kill(self, kind: str) -> bool:
        """Kill the whole group, the parent alone, a worker, or the workers' server; say whether there was one."""
        chosen = {"parent": [self.pid], "worker": self.workers(), "server": self.servers()}.get(kind, [])
        with contextlib.suppress(ProcessLookupError):
            if kind == "group":
                os.killpg(self.pid, signal.SIGKILL)
            elif chosen:
                os.kill(chosen[0], signal.SIGKILL)
        return kind == "group" or bool(chosen)


def _tell(moment: Moment) -> None:
    """Wrap functions of the harness so that they report their phase; those of workers are not changed."""
    session, pages = imharness.running.session, imharness_leaderboard.pages

    def told(phase: str, function: Callable) -> Callable:
        def call(*arguments, **named):
            moment.enter(phase)
            return function(*arguments, **named)

        return call

    def submit(pool: object, key: str, spec: object, before: Callable) -> None:
        moment.enter("attack" if spec.step in ("attack", "fit") else "evaluation")
        before(pool, key, spec)

    for executor in (imharness.running.local.LocalWorkers, imharness.running.local.InProcess):
        before = executor.submit
        executor.submit = lambda pool, key, spec, before=before: submit(pool, key, spec, before)
    session.merged_sweep = told("ranking", session.merged_sweep)
    session.current_leaderboard = told("ranking", session.current_leaderboard)
    pages.build_site = told("publishing", pages.build_site)


def started(pid: int) -> str:
    """Return when a process was started; empty where it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if text[0] in "ZX" else text[19]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _line(pid: int) -> str:
    """Return the name and the command line of a process: one that was forked has the command line of its parent."""
    try:
        contents = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("comm", "cmdline")]
        return b" ".join(contents).replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def left_over(processes: dict[int, str], seconds: float = 60.0) -> list[str]:
    """Return the processes that still run after a while, and end them."""
    end = time.monotonic() + seconds
    while alive := [pid for pid, since in processes.items() if started(pid) == since]:
        if time.monotonic() > end:
            break
        time.sleep(0.02)
    lines = [f"{pid}: {_line(pid)[:150]}" for pid in alive]
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return lines


def digests(store: Path) -> dict[str, str]:
    """Return digests of all rows, by their tasks, and of all arrays, by their place in the store."""
    arrays = [path for path in sorted((store / "artifacts").glob("*/*")) if not path.name.startswith(".")]
    return rows_of(store) | {
        str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest() for path in arrays
    }


def remains(folder: Path) -> list[str]:
    """Return the unfinished files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob(f"{UNFINISHED}/*"))


def age(folder: Path) -> None:
    """Set the times of unfinished files below a folder to 1970."""
    for name in remains(folder):
        os.utime(folder / name, (0, 0))
