"""Counts the processes of a guest and the memory that they use, from outside, and holds them in a control group."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_EVENTS = (("memory.events", "oom_kill"), ("memory.oom_control", "oom_kill"), ("pids.events", "max"))
PREFIX = "harness-"
"""What the names of groups begin with; the number of the process that made the group follows."""
_TRIES = 250
"""How often a group is tried to be removed, every 20 ms: the kernel ends its processes in its own time."""
_ENTER = 'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" 2>/dev/null; shift; done; shift; exec "$@"'
"""A shell that enters control groups, where 0 is its own number, and then becomes another program."""


def tree(root: int) -> list[int]:
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


def threads(pids: Sequence[int]) -> int:
    """Return how many threads processes have."""
    found = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            found += len(os.listdir(f"/proc/{pid}/task"))
    return found


def used_mib(pids: Sequence[int], limit_mib: float) -> float:
    """Return the private and shared memory of processes, MiB, without pages of files.

    Pages that several processes share count once. Below `limit_mib` the number may be too large, but never too small:
    then every page counts for each process that holds it, which costs less to ask for.
    """
    most = sum(_kilobytes(pid, "status", ("RssAnon", "RssShmem")) for pid in pids) / 1024
    if most <= limit_mib:
        return most
    return sum(_kilobytes(pid, "smaps_rollup", ("Pss_Anon", "Pss_Shmem")) for pid in pids) / 1024


def _kilobytes(pid: int, file: str, wanted: Sequence[str]) -> int:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.partition(":")[0] in wanted)


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
                _own("memory") / name: {"memory.limit_in_bytes": memory},
                _own("pids") / name: {"pids.max": processes},
            }
        made = []
        try:
            for folder, settings in wanted.items():
                folder.mkdir()
                made.append(folder)
                for file, value in settings.items():
                    (folder / file).write_text(str(value))
        except OSError:
            cls(made).remove()
            return None
        return cls(made)

    def around(self, line: Sequence[str]) -> list[str]:
        """Return a command line that enters the group and then becomes another."""
        return ["/bin/sh", "-c", _ENTER, "sh", *map(str, self._folders), "--", *line]

    def holds(self, pids: Sequence[int]) -> bool:
        """Say whether all these processes are in the group."""
        try:
            inside = [set(map(int, (folder / "cgroup.procs").read_text().split())) for folder in self._folders]
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
    for parent in {_CGROUPS, _own("memory"), _own("pids")}:
        for folder in parent.glob(f"{PREFIX}*"):
            if not Path("/proc", folder.name.removeprefix(PREFIX).partition("-")[0]).exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _own(controller: str) -> Path:
    """Return the group that this process is in, so that its own limits hold for the guest, too."""
    root = _CGROUPS / controller
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(",") and (root / path.lstrip("/")).is_dir():
                return root / path.lstrip("/")
    return root


def _counted(file: Path, word: str) -> int:
    """Return how often something happened in a group, by the kernel's count."""
    try:
        lines = dict(line.split() for line in file.read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(lines.get(word, 0))
