"""Runs a guest under bubblewrap: what it sees, what it may use, and how it is ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import imharness
import imharness_submissions
from imharness.errors import SandboxViolation, Unavailable
from imharness.results.identity import canonical_json
from imharness_submissions.sandbox import seccomp

GUEST = "imharness_submissions.sandbox.guest"
PLUGIN = "/plugin"
"""Path of the submitted package inside the sandbox."""
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_GPU = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Limits:
    """What a guest may use.

    Memory counts all its processes, `cpu_s` is the limit of each process, and `answer_s` of each reply.
    """

    memory_mib: int = 6144
    processes: int = 32
    file_mib: int = 64
    folder_mib: int = 256
    cpu_s: int = 7200
    answer_s: float = 600.0
    start_s: float = 120.0
    printed_kib: int = 256
    message_mib: int = 512


@dataclass(frozen=True)
class GuestSpec:
    """A submitted package that is unpacked in a folder, and how to run it.

    `masked` are folders that the guest sees empty, such as those of packages with data sets. `trusted` runs the guest
    without a sandbox.
    """

    distribution: str
    folder: Path
    masked: tuple[Path, ...] = ()
    threads: int = 1
    gpu: bool = False
    trusted: bool = False
    limits: Limits = field(default_factory=Limits)


def require_sandbox() -> None:
    """Raise `Unavailable` unless bubblewrap is installed and works."""
    if shutil.which("bwrap") is None:
        raise Unavailable("submitted code runs under bubblewrap, which is not installed", INSTALL)
    tried = subprocess.run(
        ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    if tried.returncode:
        reason = tried.stderr.decode(errors="replace").strip()[:200]
        raise Unavailable(f"bubblewrap does not work here: {reason}", "sysctl kernel.unprivileged_userns_clone=1")


INSTALL = "apt-get install bubblewrap"


def roots() -> tuple[Path, ...]:
    """Return the folders of the guest's interpreter and of the harness itself."""
    own = [Path(module.__path__[0]).parent for module in (imharness, imharness_submissions)]
    wanted = [Path(sys.prefix), Path(sys.base_prefix), *map(Path, site.getsitepackages()), *own]
    wanted += [Path(os.path.realpath(path)) for path in (sys.executable, sys.base_prefix)]
    folders = [path if path.is_dir() else path.parent.parent for path in wanted]
    return tuple(dict.fromkeys(path for path in folders if path.is_dir()))


def arguments(spec: GuestSpec, filter_fd: int | None, inside: Sequence[str] = ()) -> list[str]:
    """Return the command line of bubblewrap around a guest, or around another command."""
    line = _closed(spec)
    for folder in spec.masked:
        if any(folder.is_relative_to(root) for root in roots()):
            line += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    if spec.gpu:
        devices = [*_GPU, *map(str, Path("/dev").glob("nvidia[0-9]*"))]
        line += [part for path in devices if os.path.exists(path) for part in ("--dev-bind", path, path)]
    line += ["--ro-bind", str(spec.folder.resolve()), PLUGIN, "--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in environment(spec).items():
        line += ["--setenv", name, value]
    if filter_fd is not None:
        line += ["--seccomp", str(filter_fd)]
    return [*line, "--chdir", "/tmp", "--", *(inside or command(spec))]


def build_arguments(spec: GuestSpec, source: Path, out: Path, code: str) -> list[str]:
    """Return the command line that runs Python `code` in a copy of `source`; it may write below ``/out`` only."""
    line = [*_closed(spec), "--ro-bind", str(spec.folder.resolve()), PLUGIN, "--bind", str(out.resolve()), "/out"]
    line += ["--bind", str(source.resolve()), "/source", "--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in environment(spec).items():
        line += ["--setenv", name, value]
    return [*line, "--chdir", "/source", "--", *interpreter(), "-c", code]


def _closed(spec: GuestSpec) -> list[str]:
    """Return the options for everything that runs inside: a read-only file system without any file of the user."""
    size = str(spec.limits.folder_mib << 20)
    line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    line += ["--uid", "65534", "--gid", "65534", "--hostname", "guest", "--size", size, "--tmpfs", "/tmp"]
    for path in _SYSTEM:
        line += ["--ro-bind-try", path, path]
    for folder in roots():
        line += ["--ro-bind", str(folder), str(folder)]
    return [*line, "--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm"]


def environment(spec: GuestSpec) -> dict[str, str]:
    """Return all environment variables of a guest."""
    place = str(spec.folder.resolve()) if spec.trusted else PLUGIN
    threads = str(spec.threads)
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": place,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": threads,
        "OPENCV_FOR_THREADS_NUM": threads,
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }


def command(spec: GuestSpec) -> list[str]:
    """Return the interpreter's command line."""
    place = str(spec.folder.resolve()) if spec.trusted else PLUGIN
    limits = asdict(spec.limits)
    facts = {"distribution": spec.distribution, "folder": place, "threads": spec.threads, "limits": limits}
    return [*interpreter(), "-m", GUEST, canonical_json(facts)]


def interpreter() -> list[str]:
    """Return how Python is started inside."""
    return [sys.executable, "-s"]


class Jail:
    """A running guest. Its first process starts sessions; each session is a process of its own."""

    def __init__(self, spec: GuestSpec) -> None:
        if not spec.trusted:
            require_sandbox()
        self.spec = spec
        self.control, inside = socket.socketpair()
        errors, self._errors_in = os.pipe()
        self.errors = errors
        os.set_blocking(errors, False)
        with filter_file(spec) as filter_fd:
            line = command(spec) if spec.trusted else arguments(spec, filter_fd)
            self.process = subprocess.Popen(
                line,
                stdin=inside.fileno(),
                stdout=self._errors_in,
                stderr=self._errors_in,
                env=environment(spec) if spec.trusted else {"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
                pass_fds=() if filter_fd is None else (filter_fd,),
                start_new_session=True,
            )
        inside.close()
        os.close(self._errors_in)
        self.filtered = filter_fd is not None
        self.group = None if spec.trusted else _Cgroup.create(self.process.pid, spec.limits)
        self._ended = False
        self.printed = 0
        self.last_words = b""

    @property
    def level(self) -> str:
        """How the guest is isolated, for records."""
        if self.spec.trusted:
            return "none: trusted"
        parts = ["bubblewrap", *(["seccomp"] if self.filtered else []), *(["cgroup"] if self.group else [])]
        return "+".join(parts)

    def hear(self) -> None:
        """Read what the guest printed; raises `SandboxViolation` when it printed too much."""
        while True:
            try:
                chunk = os.read(self.errors, 1 << 16)
            except (BlockingIOError, OSError):
                return
            if not chunk:
                return
            self.printed += len(chunk)
            self.last_words = (self.last_words + chunk)[-4000:]
            if self.printed > self.spec.limits.printed_kib << 10:
                raise SandboxViolation(f"printed more than {self.spec.limits.printed_kib} KiB")

    def inspect(self) -> int:
        """Return the number of the guest's processes; raises `SandboxViolation` when it exceeds a limit."""
        limits, pids = self.spec.limits, _tree(self.process.pid)
        if len(pids) > limits.processes:
            raise SandboxViolation(f"started more than {limits.processes} processes")
        used = _used_mib(pids, 0 if self.spec.trusted else 2)
        if used > limits.memory_mib:
            raise SandboxViolation(f"uses {used:.0f} MiB of memory; at most {limits.memory_mib} are allowed")
        if self.group is not None and self.group.ran_out():
            raise SandboxViolation(f"wanted more memory or processes than allowed: {limits.memory_mib} MiB")
        return len(pids)

    def kill(self) -> None:
        """End all processes of the guest."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.control.close()
        with contextlib.suppress(OSError):
            os.close(self.errors)
        if self.group is not None:
            self.group.remove()


@contextlib.contextmanager
def filter_file(spec: GuestSpec) -> Iterator[int | None]:
    """Yield a file descriptor with the seccomp program, or None where this machine's architecture has none."""
    code = b"" if spec.trusted else seccomp.program()
    if not code:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(code)
        file.seek(0)
        yield file.fileno()


class _Cgroup:
    """A control group: a hard limit of the kernel on memory and processes, where this process may create one."""

    def __init__(self, folders: Sequence[Path], events: Callable[[], int]) -> None:
        self._folders, self._events = folders, events

    @classmethod
    def create(cls, pid: int, limits: Limits) -> _Cgroup | None:
        """Return a new group with the process in it, or None where this process may not create one."""
        name, memory = f"harness-{os.getpid()}-{pid}", limits.memory_mib << 20
        unified = (_CGROUPS / "cgroup.controllers").exists()
        if unified:
            wanted = {_CGROUPS / name: {"memory.max": memory, "pids.max": limits.processes, "memory.swap.max": 0}}
        else:
            wanted = {
                _CGROUPS / "memory" / name: {"memory.limit_in_bytes": memory},
                _CGROUPS / "pids" / name: {"pids.max": limits.processes},
            }
        made = []
        try:
            for folder, settings in wanted.items():
                folder.mkdir()
                made.append(folder)
                for file, value in settings.items():
                    (folder / file).write_text(str(value))
                (folder / "cgroup.procs").write_text(str(pid))
        except OSError:
            cls(made, lambda: 0).remove()
            return None
        first = made[0]
        return cls(made, lambda: _counted(first / ("memory.events" if unified else "memory.oom_control")))

    def ran_out(self) -> bool:
        """Say whether the kernel ended a process for want of memory."""
        return self._events() > 0

    def remove(self) -> None:
        """Remove the group; its processes must have ended."""
        for folder in self._folders:
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.02)


def _counted(file: Path) -> int:
    """Return how often the kernel ended a process of the group for want of memory."""
    try:
        lines = dict(line.split() for line in file.read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(lines.get("oom_kill", 0))


def _tree(root: int) -> list[int]:
    """Return a process and all its descendants."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                text = Path(f"/proc/{pid}/task/{task}/children").read_text()
                waiting += [int(child) for child in text.split()]
    return found


def _used_mib(pids: Sequence[int], first: int) -> float:
    """Return the memory of processes, MiB.

    The others are forks of the guest's first process, `pids[first]`; memory that they share with it counts once.
    """
    sizes = [_anonymous_mib(pid) for pid in pids]
    shared = sizes[first] if first < len(sizes) else 0.0
    return shared + sum(max(0.0, size - shared) for size in sizes)


def _anonymous_mib(pid: int) -> float:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0.0
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") / 2**20
