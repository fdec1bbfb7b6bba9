"""`harness WORDS` in processes that are forked from one that has imported the harness, which saves seconds each.

The server has imported what a run needs, also what torch imports for the first optimiser of a process, and has used
none of it, so that a child is as good as a new process. The workers of a command are forked from such a child, too.
`tests/acceptance/test_whole_way.py` starts commands and workers as users do.
"""

import gc
import json
import multiprocessing.forkserver
import multiprocessing.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

START = "import sys; sys.path.insert(0, sys.argv[1]); from tests.forking import serve; sys.path.pop(0); serve()"
IMPORTED = ("imharness.cli.run", "imharness_leaderboard.command", "imharness_embedded", "imharness_iqa",
            "imharness_membership", "imharness_perceptual", "imharness_reconstruction", "torch", "torch._dynamo",
            "duckdb", "imharness.ranking.leaderboard", "imharness.running.local", "imharness_leaderboard.pages",
            "imharness_iqa.tables", "imharness_membership.tables", "matplotlib.backends.backend_svg", "pandas",
            "scipy.stats", "imharness.running.prepared")  # fmt: skip

WITHOUT_SITE = """
from imharness_leaderboard import pages
pages.build_site = lambda address, site: pages.Built(0, ())
from imharness.cli import main
main()
"""
"""Code for `-c`, before the words of a command: it leaves out the site, for tests that read the store alone."""


class Server:
    """A process that forks one child at a time; `close` ends it."""

    def __init__(self) -> None:
        root = Path(__file__).resolve().parents[1]
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], paths: Sequence[str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder with further entries of `sys.path`; it is killed after so many seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as logs:
            request = [words, str(folder), dict(environment), list(paths), seconds, logs]
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            printed, errors = ((Path(logs) / name).read_text() for name in ("1", "2"))
        return subprocess.CompletedProcess(words, code, printed, errors)

    def close(self) -> None:
        """End the server by an empty line; processes that tests have forked may hold the pipe open."""
        self._process.communicate("\n")


def serve() -> None:
    """Answer each line of the standard input, a command, with its exit code; an empty line ends it."""
    with ending():  # at once: to release all imported modules takes as long as half of the imports
        import_all()
        for line in iter(sys.stdin.readline, ""):
            if line == "\n":
                break
            words, folder, environment, paths, seconds, logs = json.loads(line)
            pid = os.fork()
            if pid == 0:
                _become(words, folder, environment, paths, logs)
            sys.stdout.write(f"{_ended(pid, seconds)}\n")
            sys.stdout.flush()
        raise SystemExit(0)


def import_all() -> None:
    """Import what commands need."""
    interrupted = signal.getsignal(signal.SIGINT)
    gc.disable()  # it would look for garbage a hundred times during the imports, and find none
    for name in IMPORTED:
        __import__(name)
    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGINT, interrupted)  # the server of workers ignores it, and says so when it is prepared


def offer_server_of_workers() -> None:
    """Let workers of this process be forked from a fork of it as it is now, instead of from a new Python.

    The fork waits for the files that multiprocessing gives its server of workers, and ends with this process. If that
    server is killed, the next one is a new Python.
    """
    receiving, asking = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        with ending():
            asking.close()
            _, files, _, _ = socket.recv_fds(receiving, 1, 2)
            receiving.close()
            if files:
                with suppress(OSError):  # a name by which tests find it, where the system gives names
                    Path("/proc/self/comm").write_text("forkserver")
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                multiprocessing.forkserver.main(*files, [])
    receiving.close()
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
            module = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(words[1], "<string>", "exec"), vars(module))
            raise SystemExit(0)
        sys.argv = ["harness", *words]
        from imharness.cli import main

        main()


@contextmanager
def ending() -> Iterator[None]:
    """End this process after the block with the exit code of a command, or 70, and release no module."""
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
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if ended_pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.01)
