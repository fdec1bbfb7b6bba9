"""Counts the processes of a guest and the memory that they use, from outside, and holds them in a control group."""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_CGROUPS = Path("/sys/fs/cgroup")
_EVENTS = (("memory.events", "oom_kill"), ("memory.oom_control", "oom_kill"), ("pids.events", "max"))
PREFIX = "harness-"
"""What the names of groups begin with; the number of the process that made the group follows."""
_TRIES = 250
"""How often a group is tried to be removed, every 20 ms: the kernel ends its processes in its own time."""
_ENTER = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" 2>/dev/null; shift; done; shift; exec "$@"'
"""A shell that enters control groups, where 0 is its own number, and then becomes another program."""


_STATUS = re.compile(rb"^(Threads|RssAnon|RssShmem|VmPTE|VmSwap):\s*(\d+)", re.MULTILINE)
_OWN = (b"VmPTE", b"VmSwap")
"""What no two processes share: page tables, of which memory that was only read has some, too, and swapped pages."""
_SHARES = re.compile(rb"^Pss_(?:Anon|Shmem):\s*(\d+)", re.MULTILINE)


class Counted(NamedTuple):
    """A process and its memory.

    Args:
        pid: its number.
        threads: how many threads it has.
        kib: its private and shared memory without files, KiB.
        own_kib: its page tables and its swapped memory, KiB.
        alive: the number of a thread that has not ended: `pid` itself if the first thread has not.
    """

    pid: int
    threads: int
    kib: int
    own_kib: int
    alive: int


def tree(root: int) -> list[int]:
    """Return a process and all its descendants."""
    return [process.pid for process in counted(root)]


def counted(root: int, most: float = math.inf) -> list[Counted]:
    """Return a process and its descendants; one that has ended meanwhile has no threads.

    Counting ends once there are more than `most` processes, because a guest may fork faster than they are counted.
    """
    processes: list[Counted] = []
    waiting = [root]
    while waiting and len(processes) <= most:
        pid = waiting.pop()
        alive, (threads, kib, private_kib) = pid, _facts(pid)
        tasks = _tasks(pid) if threads > 1 else [pid]
        if not kib:  # its first thread has ended, for which the kernel states no memory: another thread is asked
            for task in tasks:
                _, kib, private_kib = _facts(task)
                if kib:
                    alive = task
                    break
            else:
                kib = private_kib = 0
        processes.append(Counted(pid, threads, kib, private_kib, alive))
        for task in tasks:
            waiting += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return processes


def _facts(task: int) -> tuple[int, int, int]:
    """Return three numbers of the process of a thread: its threads, its memory in KiB, and its `own_kib`."""
    facts = {name: int(size) for name, size in _STATUS.findall(_read(f"/proc/{task}/status"))}
    threads, private_kib = facts.pop(b"Threads", 0), sum(facts.pop(name, 0) for name in _OWN)
    return threads, sum(facts.values()), private_kib


def used_mib(processes: Sequence[Counted], limit_mib: float) -> float:
    """Return the private and shared memory of processes with its page tables, MiB, without pages of files.

    At first a page that several processes share counts for each of them, which is quick to find out. Only if that is
    more than `limit_mib`, it counts once. So a number up to `limit_mib` may be too large, but none is too small.
    """
    private_mib = sum(process.own_kib for process in processes) / 1024
    most = private_mib + sum(process.kib for process in processes) / 1024
    if most <= limit_mib:
        return most
    shares = (_SHARES.findall(_read(f"/proc/{process.alive}/smaps_rollup")) for process in processes)
    return private_mib + sum(int(kib) for share in shares for kib in share) / 1024


def _tasks(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(task) for task in os.listdir(f"/proc/{pid}/task")]
    return []


def _read(file: str) -> bytes:
    """Return what a file of ``/proc`` says, empty when its process has ended."""
    try:
        with open(file, "rb", buffering=0) as opened:
            return opened.read()
    except OSError:
        return b""


def unlimited() -> bool:
    """Say whether this user is the machine's root, for whom the kernel does not limit the number of processes."""
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text(encoding="utf-8").split() == [
        "0",
        "0",
        "4294967295",
    ]


class ControlGroup:
    """A hard limit of the kernel on memory and processes, where this process may create one.

    A program is started inside the group, so that all its descendants are in it.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    @classmethod
    def create(cls, name: str, memory_mib: int, processes: int) -> ControlGroup | None:
        """Return a new, empty group, or None where this process may not create one."""
        memory = memory_mib << 20
        _remove_abandoned()
        unified = (_CGROUPS / "cgroup.controllers").exists()
        if unified:
            wanted = {_CGROUPS / name: {"memory.max": memory, "pids.max": processes, "memory.swap.max": 0}}
        else:
            wanted = {
                _own_group("memory") / name: {"memory.limit_in_bytes": memory},
                _own_group("pids") / name: {"pids.max": processes},
            }
        folders = []
        try:
            for folder, settings in wanted.items():
                folder.mkdir()
                folders.append(folder)
                for file, value in settings.items():
                    (folder / file).write_text(str(value), encoding="utf-8")
        except OSError:
            cls(folders).remove()
            return None
        return cls(folders)

    def around(self, line: Sequence[str]) -> list[str]:
        """Return a command line that enters the group and then becomes another."""
        return ["/bin/sh", "-c", _ENTER, "sh", *map(str, self._folders), "--", *line]

    def holds(self, pids: Sequence[int]) -> bool:
        """Say whether all these processes are in the group."""
        try:
            inside = [
                set(map(int, (folder / "cgroup.procs").read_text(encoding="utf-8").split())) for folder in self._folders
            ]
        except (OSError, ValueError):
            return False
        return bool(pids) and all(set(pids) <= members for members in inside)

    def ran_out(self) -> bool:
        """Say whether the kernel ended a process for want of memory, or refused to start one."""
        return any(_counted(folder / file, word) > 0 for folder in self._folders for file, word in _EVENTS)

    def remove(self) -> None:
        """Remove the group; its processes must have ended."""
        for folder in self._folders:
            for _ in range(_TRIES):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.02)


def _remove_abandoned() -> None:
    """Remove the empty groups of processes that were killed; the kernel keeps a group that has a process."""
    for parent in {_CGROUPS, _own_group("memory"), _own_group("pids")}:
        for folder in parent.glob(f"{PREFIX}*"):
            if not Path("/proc", folder.name.removeprefix(PREFIX).partition("-")[0]).exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _own_group(controller: str) -> Path:
    """Return the group that this process is in, so that its own limits hold for the guest, too."""
    root = _CGROUPS / controller
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(",") and (root / path.lstrip("/")).is_dir():
                return root / path.lstrip("/")
    return root


def _counted(file: Path, word: str) -> int:
    """Return how often something happened in a group, by the kernel's count."""
    try:
        lines = dict(line.split() for line in file.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        return 0
    return int(lines.get(word, 0))
