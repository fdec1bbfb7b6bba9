"""`harness WORDS` in processes forked from one that has imported the harness, which saves seconds of every start.

The server is forked from the process that has collected the tests, before the first of them. It imports what else a run
needs, also what torch imports for the first optimiser of a process, and has done nothing with it, so that a child is as
good as a process of its own. The server that the workers of a command are forked
from is such a child, too: `tests/acceptance/test_whole_way.py` starts both as users do.
"""

import functools
import gc
import json
import logging
import multiprocessing.forkserver
import multiprocessing.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

IMPORTED = ("imharness.cli.run", "imharness_leaderboard.command", "imharness_embedded", "imharness_iqa",
            "imharness_membership", "imharness_perceptual", "imharness_reconstruction", "torch", "torch._dynamo",
            "duckdb", "imharness.ranking.board", "imharness.running.local", "imharness_leaderboard.pages",
            "imharness_iqa.tables", "imharness_membership.tables", "matplotlib.backends.backend_svg", "pandas",
            "scipy.stats", "imharness.running.prepared")  # fmt: skip

WITHOUT_SITE = """
from imharness_leaderboard import pages
pages.build_site = lambda address, site: pages.Built(0, ())
from imharness.cli import main
main()
"""
"""As `-c CODE` before the words of a command: it leaves out the site, where tests read the store alone."""


class Server:
    """A process that forks one child at a time; `close` ends it."""

    def __init__(self) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings(action="ignore"):  # newer Pythons warn of other threads: none is needed there
            self._pid = os.fork()
        if self._pid == 0:
            with ending():
                os.close(self._requests)
                os.close(self._answers)
                _forget_tests()
                serve(requests, answers)
        os.close(requests)
        os.close(answers)

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], paths: Sequence[str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder with further entries of `sys.path`; it is killed after so many seconds."""
        with tempfile.TemporaryDirectory() as logs:
            asked = [words, str(folder), dict(environment), list(paths), seconds, logs]
            os.write(self._requests, json.dumps(asked).encode() + b"\n")
            code = int(os.read(self._answers, 100))
            printed, errors = ((Path(logs) / name).read_text() for name in ("1", "2"))
        return subprocess.CompletedProcess(words, code, printed, errors)

    def close(self) -> None:
        """Say that it was the last command: processes that tests have forked since then hold the pipe open, too."""
        os.write(self._requests, b"\n")
        os.waitpid(self._pid, 0)
        os.close(self._requests)
        os.close(self._answers)


def _forget_tests() -> None:
    """Put back what pytest has put in the place of the interpreter's own, so that a child is like any process."""
    root = str(Path(__file__).resolve().parents[1])
    sys.path[:] = ["", *(path for path in sys.path if path not in ("", root))]
    sys.meta_path[:] = [found for found in sys.meta_path if not type(found).__module__.startswith("_pytest.")]
    sys.modules["__main__"] = types.ModuleType("__main__")  # workers would import that of pytest again
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
    logging.root.handlers.clear()
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
    signal.signal(signal.SIGINT, signal.default_int_handler)


def serve(requests: int, answers: int) -> None:
    """Answer each line of a pipe, a command, with its exit code; an empty line ends it."""
    for line in os.fdopen(requests):
        if line == "\n":
            break
        import_all()
        words, folder, environment, paths, seconds, logs = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(words, folder, environment, paths, logs)
        os.write(answers, f"{_ended(pid, seconds)}\n".encode())


@functools.cache
def import_all() -> None:
    """Import what commands need."""
    interrupted = signal.getsignal(signal.SIGINT)
    gc.disable()  # looks for garbage a hundred times while this is imported, and finds none
    for name in IMPORTED:
        __import__(name)
    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGINT, interrupted)  # the server of workers ignores it, and says so when it is prepared


def offer_server_of_workers() -> None:
    """Let workers of this process be forked from a fork of it as it is now, instead of from a new Python.

    The fork waits for the files that multiprocessing gives its server, and ends with this process. Where that server is
    killed, the next is a new Python.
    """
    asked, asking = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        with ending():
            asking.close()
            _, files, _, _ = socket.recv_fds(asked, 1, 2)
            asked.close()
            if files:
                with suppress(OSError):  # a name by which tests find it, where the system gives names
                    Path("/proc/self/comm").write_text("forkserver")
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                multiprocessing.forkserver.main(*files, [])
    asked.close()
    start = multiprocessing.util.spawnv_passfds

    def spawnv_passfds(path: bytes, arguments: Sequence[str], files: Sequence[int]) -> int:
        if "multiprocessing.forkserver" not in arguments[-1] or asking.fileno() < 0:
            return start(path, arguments, files)
        with asking:
            socket.send_fds(asking, [b"."], files)
        return pid

    multiprocessing.util.spawnv_passfds = spawnv_passfds


def _become(words: Sequence[str], folder: str, environment: Mapping[str, str], paths: Sequence[str], logs: str) -> None:
    """Go on as a command, or as `python -c CODE`; it prints to the files 1 and 2 of the folder of its logs."""
    with ending():
        os.setsid()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (1, 2):
            os.dup2(os.open(f"{logs}/{number}", os.O_WRONLY | os.O_CREAT), number)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[1:1] = paths
        offer_server_of_workers()
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            own = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(words[1], "<string>", "exec"), vars(own))
            raise SystemExit(0)
        sys.argv = ["harness", *words]
        from imharness.cli import main

        main()


@contextmanager
def ending() -> Iterator[None]:
    """End this process, a forked child, after the block, with the code that a command exits with, or 70."""
    code = 70
    try:
        yield
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ended(pid: int, seconds: float) -> int:
    """Return the exit code of a child, which is killed with its workers where it takes too long."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.01)
