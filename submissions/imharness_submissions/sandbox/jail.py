"""Runs a guest under bubblewrap: what it sees, what it may use, and how it is ended."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import site
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import imharness
import imharness_submissions
from imharness.errors import SandboxViolation, Unavailable
from imharness.results.identity import canonical_json
from imharness.running.logs import log_output
from imharness_submissions.sandbox import seccomp
from imharness_submissions.sandbox.processes import PREFIX, ControlGroup, counted, tree, unlimited, used_mib
from imharness_submissions.sandbox.wire import LONGEST_ORDER, OPEN

PLUGIN = "/plugin"
"""Path of the submitted package inside the sandbox."""
SOURCE = "/source"
"""Path of a repository that is built inside the sandbox."""
_START = """import gc, json, sys
gc.disable()
sys.path[:0] = json.loads(sys.argv[1])["paths"]
from imharness_submissions.sandbox.guest import main
main()
"""
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")
"""Not the device of zeros: mapped as shared memory, it is memory that nobody counts."""
_GPU = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_numbers = itertools.count()


@dataclass(frozen=True)
class Limits:
    """What a guest may use.

    Memory counts all its processes, and `cpu_s` is the limit of each process. `answer_s` is the time of each request
    until its reply, less the time in which the harness answers questions meanwhile.
    """

    memory_mib: int = 6144
    processes: int = 32
    threads: int = 1024
    """Of all processes together."""
    file_mib: int = 64
    folder_mib: int = 256
    cpu_s: int = 7200
    answer_s: float = 600.0
    start_s: float = 120.0
    printed_kib: int = 256
    message_mib: int = 512
    reports: int = 10_000
    """Reports of progress in one request."""


@dataclass(frozen=True)
class GuestSpec:
    """A submitted package that is unpacked in a folder, and how to run it.

    `masked` are folders that the guest sees empty, such as those of packages with data sets. `source` is a repository
    that a session may build into a wheel; `folder` then holds the build backend. `trusted` runs the guest without a
    sandbox.
    """

    distribution: str
    folder: Path
    masked: tuple[Path, ...] = ()
    threads: int = 1
    gpu: bool = False
    trusted: bool = False
    source: Path | None = None
    libraries: tuple[str, ...] = ()
    """Modules of libraries that the first process imports, so that sessions need not."""
    limits: Limits = field(default_factory=Limits)


def require_linux() -> None:
    """Raise `Unavailable` on another system, whose processes cannot be held like this."""
    if not sys.platform.startswith("linux"):
        raise Unavailable(
            "packages of others run in processes that only Linux can hold",
            "run it in a container with Linux",
        )


def require_sandbox() -> None:
    """Raise `Unavailable` unless bubblewrap is installed and works."""
    if shutil.which("bwrap") is None:
        raise Unavailable("submitted code runs under bubblewrap, which is not installed", INSTALL)
    tried = subprocess.run(
        ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_outside(),
        timeout=20,
        check=False,
    )
    if tried.returncode:
        reason = tried.stderr.decode(errors="replace").strip()[:200]
        raise Unavailable(f"bubblewrap does not work here: {reason}", "sysctl kernel.unprivileged_userns_clone=1")
    group = _group(Limits())
    if group is not None:
        group.remove()


def _group(limits: Limits) -> ControlGroup | None:
    """Return a control group for a guest, or None where none can be made and limits of the user hold its processes.

    Raises `Unavailable` where none can be made for root, whose number of processes no such limit holds.
    """
    group = ControlGroup.create(f"{PREFIX}{os.getpid()}-{next(_numbers)}", limits.memory_mib, limits.processes)
    if group is None and unlimited():
        raise Unavailable(
            "nothing holds the number of processes of root where no control group can be created",
            "run it as another user, or where /sys/fs/cgroup can be written",
        )
    return group


INSTALL = "apt-get install bubblewrap"


def roots() -> tuple[Path, ...]:
    """Return the folders of the guest's interpreter and of the harness itself."""
    package_roots = [Path(module.__path__[0]).parent for module in (imharness, imharness_submissions)]
    wanted = [Path(sys.prefix), Path(sys.base_prefix), *map(Path, site.getsitepackages()), *package_roots]
    wanted += [Path(os.path.realpath(path)) for path in (sys.executable, sys.base_prefix)]
    folders = [path if path.is_dir() else path.parent.parent for path in wanted]
    return tuple(dict.fromkeys(path for path in folders if path.is_dir()))


def arguments(spec: GuestSpec, inside: Sequence[str] = ()) -> list[str]:
    """Return the command line of bubblewrap around a guest, or around another command.

    What is started keeps the capability to mount in namespaces of its own; a session of the guest gives it up before
    the package is imported.
    """
    line = _closed(spec)
    for folder in spec.masked:
        if any(folder.is_relative_to(root) for root in roots()):
            line += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    devices = [*_DEVICES]
    if spec.gpu:
        devices += [*_GPU, *map(str, Path("/dev").glob("nvidia[0-9]*"))]
    for path in filter(os.path.exists, devices):
        line += ["--dev-bind", path, path]
    line += ["--ro-bind", str(spec.folder.resolve()), PLUGIN]
    if spec.source is not None:
        line += ["--ro-bind", str(spec.source.resolve()), SOURCE]
    line += ["--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in environment(spec).items():
        line += ["--setenv", name, value]
    return [*line, "--chdir", "/tmp", "--", *(inside or command(spec))]


def _closed(spec: GuestSpec) -> list[str]:
    """Return the options for everything that runs inside: a read-only file system without any file of the user."""
    size = str(spec.limits.folder_mib << 20)
    line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    line += ["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"]
    line += ["--uid", "65534", "--gid", "65534", "--hostname", "guest", "--size", size, "--tmpfs", "/tmp"]
    for path in _SYSTEM:
        line += ["--ro-bind-try", path, path]
    for folder in roots():
        line += ["--ro-bind", str(folder), str(folder)]
    line += ["--proc", "/proc", "--tmpfs", "/dev", "--dir", "/dev/shm"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        line += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    return [*line, "--symlink", "/proc/self/fd", "/dev/fd"]


def _outside() -> dict[str, str]:
    """Return the environment of bubblewrap itself, which code inside may be able to read."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


def environment(spec: GuestSpec) -> dict[str, str]:
    """Return all environment variables of a guest."""
    threads = str(spec.threads)
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": threads,
        "OPENCV_FOR_THREADS_NUM": threads,
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }


def command(spec: GuestSpec) -> list[str]:
    """Return the interpreter's command line. It knows the harness and its libraries, and not yet the package."""
    limits = asdict(spec.limits)
    source = str(spec.source.resolve()) if spec.source is not None and spec.trusted else SOURCE
    facts = {
        "distribution": spec.distribution,
        "threads": spec.threads,
        "limits": limits,
        "apart": not spec.trusted,
        "folder": str(spec.folder.resolve()) if spec.trusted else PLUGIN,
        "source": source,
        "gpu": spec.gpu,
        "libraries": spec.libraries,
        "paths": _paths(),
        "roots": [str(root) for root in roots() if root.is_relative_to("/tmp")],
    }
    return [*interpreter(), "-c", _START, canonical_json(facts)]


def _paths() -> list[str]:
    """Return the folders of this process's modules that the guest sees, without any that a user adds."""
    search_paths = [Path(path) for path in sys.path if path and os.path.isdir(path)]
    return [str(path) for path in search_paths if any(path.is_relative_to(root) for root in roots())]


def interpreter() -> list[str]:
    """Return how Python is started inside: without the environment, the current folder, site packages and hooks.

    A virtual environment's Python is a link, perhaps through folders that are not inside; so its file is started.
    """
    return [os.path.realpath(sys.executable), "-I", "-S", "-B"]


class Ends(NamedTuple):
    """The harness's ends of the pipes to a session: for its replies, for requests to it, and for what it prints."""

    reading: int
    writing: int
    hearing: int

    def close(self) -> None:
        """Close them; the session ends."""
        for fd in self:
            os.close(fd)


class Printed:
    """Reads what processes print, keeps the last of it, and passes it on to the log of the task."""

    def __init__(self, reading: int, most_kib: int) -> None:
        self.reading, self._most, self._bytes, self._last = reading, most_kib, 0, b""
        os.set_blocking(reading, False)

    def hear(self) -> None:
        """Read what was printed; raises `SandboxViolation` when it is too much."""
        while True:
            try:
                chunk = os.read(self.reading, 1 << 16)
            except OSError:
                return
            if not chunk:
                return
            self._bytes += len(chunk)
            log_output(chunk.decode(errors="replace"))
            self._last = (self._last + chunk)[-4000:]
            if self._bytes > self._most << 10:
                raise SandboxViolation(f"printed more than {self._most} KiB")

    @property
    def last_line(self) -> str:
        """The last line, at most 300 characters."""
        return " ".join(self._last.decode(errors="replace").strip().splitlines()[-1:])[:300]

    def close(self) -> None:
        """Stop reading."""
        with contextlib.suppress(OSError):
            os.close(self.reading)


class Jail:
    """A running guest. Its first process starts sessions; each session is a process with namespaces of its own."""

    def __init__(self, spec: GuestSpec) -> None:
        require_linux()
        if not spec.trusted:
            require_sandbox()
        self.spec = spec
        self.control, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reading, printing = os.pipe()
        self.printed = Printed(reading, spec.limits.printed_kib)
        line = command(spec) if spec.trusted else arguments(spec)
        group = None if spec.trusted else _group(spec.limits)
        self.process = subprocess.Popen(
            line if group is None else group.around(line),
            stdin=inside.fileno(),
            stdout=printing,
            stderr=printing,
            env=environment(spec) if spec.trusted else _outside(),
            start_new_session=True,
        )
        inside.close()
        os.close(printing)
        self.group = group
        self.grouped = False
        self._ended = False

    @property
    def level(self) -> str:
        """How the guest is isolated, for records."""
        if self.spec.trusted:
            return "none: trusted"
        layers = ["bubblewrap", *(["seccomp"] if seccomp.program() else []), *(["cgroup"] if self.grouped else [])]
        return "+".join(layers)

    def wait_until_ready(self) -> bool:
        """Wait for the guest's first process; find out whether the control group holds it. Return whether it runs."""
        self.control.settimeout(self.spec.limits.start_s)
        try:
            ready = self.control.recv(16) == b"ready"
        except OSError:
            ready = False
        self.grouped = ready and self.group is not None and self.group.holds(tree(self.process.pid))
        return ready

    def order(self, expected: str = "") -> Ends:
        """Let a session start, and return this side's ends of its pipes; raises `Unavailable`.

        `expected`: the module that it may import at once, at most 200 characters; a longer one is not sent.
        """
        import fcntl

        (there_in, here_out), (here_in, there_out), (hearing, printing) = os.pipe(), os.pipe(), os.pipe()
        for fd in (here_out, there_out):
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)
        ends = Ends(here_in, here_out, hearing)
        try:
            order = OPEN + expected.encode()
            socket.send_fds(
                self.control, [order if len(order) <= LONGEST_ORDER else OPEN], [there_in, there_out, printing]
            )
        except OSError as error:
            ends.close()
            raise Unavailable(f"the sandbox ended: {error}") from None
        finally:
            for fd in (there_in, there_out, printing):
                os.close(fd)
        return ends

    def born(self) -> int:
        """Return a file descriptor of the process of the session that was ordered first; raises `Unavailable`."""
        try:
            word, fds, _, _ = socket.recv_fds(self.control, 300, 1)
        except OSError as error:
            word, fds = str(error).encode(), []
        if word != b"born" or len(fds) != 1:
            raise Unavailable(f"the sandbox started no session: {word.decode(errors='replace')[:200]}")
        return fds[0]

    def inspect(self) -> int:
        """Return the number of the guest's processes; raises `SandboxViolation` when it exceeds a limit."""
        limits = self.spec.limits
        counted_processes = counted(self.process.pid, limits.processes)
        if len(counted_processes) > limits.processes:
            raise SandboxViolation(f"started more than {limits.processes} processes")
        if sum(process.threads for process in counted_processes) > limits.threads:
            raise SandboxViolation(f"started more than {limits.threads} threads")
        used = used_mib(counted_processes, limits.memory_mib)
        if used > limits.memory_mib:
            raise SandboxViolation(f"uses {used:.0f} MiB of memory; at most {limits.memory_mib} are allowed")
        if self.group is not None and self.group.ran_out():
            raise SandboxViolation(f"wanted more memory or processes than allowed: {limits.memory_mib} MiB")
        return len(counted_processes)

    def kill(self) -> None:
        """End all processes of the guest."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.control.close()
        self.printed.close()
        if self.group is not None:
            self.group.remove()


def process_of(pidfd: int) -> int:
    """Return the number of the process that a file descriptor stands for; 0 when it has ended."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == "Pid":
            return max(0, int(value))
    return 0
