"""Inside the sandbox: gives a session namespaces and temporary folders of its own, and takes away what could undo that.

The guest's first process keeps one capability, to make namespaces and to mount in them. It never runs the package.
Each session gives this capability up here, before the package is imported.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from imharness_submissions.sandbox import seccomp

_OWN_PROCESSES = 0x20000000
_OTHER_NAMESPACES = 0x20000 | 0x4000000 | 0x8000000 | 0x40000000
"""CLONE_NEW* of mount, uts, ipc and net."""
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS, _RECURSIVE, _PRIVATE = 1, 2, 4, 8, 0x4000, 0x40000
_REMOUNT, _BIND, _KEPT = 0x20, 0x1000, 0xC0F
_SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES, _AMBIENT, _CLEAR_ALL = 4, 22, 38, 47, 4
_CAPABILITY_VERSION = 0x20080522
_FILES = 65536
"""How many files a temporary folder may hold."""
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))


def protect_devices() -> None:
    """Keep everybody from changing the owner, mode or time of devices, which are the host's own; raises `OSError`."""
    for entry in os.scandir("/dev"):
        if stat.S_ISCHR(entry.stat().st_mode):
            flags = os.statvfs(entry.path).f_flag & _KEPT
            _mount(b"none", entry.path.encode(), b"", _REMOUNT | _BIND | _READ_ONLY | flags, b"")


def forked() -> int:
    """Fork a child that is process 1 of a new namespace of processes; return its number, or 0 in the child itself."""
    namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        _done(_libc.unshare(_OWN_PROCESSES), "a namespace of processes")
        child = os.fork()
        if child:
            _done(_libc.setns(namespace, _OWN_PROCESSES), "going back to the namespace of processes")
        return child
    finally:
        os.close(namespace)


def enclose(folder_mib: int, folders: Sequence[str], gpu: bool) -> None:
    """Enter new namespaces with an empty ``/tmp`` and ``/dev/shm``, and give up what could undo that, for ever.

    Args:
        folder_mib: how large each of the two may become, MiB.
        folders: folders below ``/tmp`` that stay, in case the harness itself is installed there.
        gpu: whether calls that the driver of a GPU needs are allowed.

    Raises `OSError` if the kernel refuses.
    """
    os.setsid()  # a signal to the own group reaches processes of other namespaces, too
    _done(_libc.unshare(_OTHER_NAMESPACES), "new namespaces")
    _mount(b"none", b"/", b"", _RECURSIVE | _PRIVATE, b"")
    descriptors = [os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in folders]
    size = f"size={folder_mib}m,nr_inodes={_FILES},mode=1777".encode()
    _mount(b"proc", b"/proc", b"proc", _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_PROGRAMS, b"")
    for mount_point in (b"/tmp", b"/dev/shm"):
        _mount(b"tmpfs", mount_point, b"tmpfs", _NO_SUID | _NO_DEVICES, size)
    for folder, fd in zip(folders, descriptors, strict=True):
        os.makedirs(folder, exist_ok=True)
        _mount(f"/proc/self/fd/{fd}".encode(), folder.encode(), b"", _BIND | _RECURSIVE, b"")
        os.close(fd)
    os.chdir("/tmp")
    _control(_SET_NO_NEW_PRIVILEGES, 1)
    _control(_AMBIENT, _CLEAR_ALL)
    nothing = (ctypes.c_uint32 * 6)()
    _done(_libc.capset((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), nothing), "giving capabilities up")
    code = seccomp.program(gpu=gpu)
    if code:
        lines = _Program(len(code) // 8, code)
        _done(_libc.prctl(_SET_SECCOMP, 2, ctypes.byref(lines), 0, 0), "the filter of system calls")


def limit(limits: Mapping[str, Any]) -> None:
    """Set what each process may use; nothing inside can raise it again."""
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits["file_mib"] << 20,
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_NPROC: _tasks(limits),
    }
    for what, value in wanted.items():
        hard = resource.getrlimit(what)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (bound, bound))
    _control(_SET_DUMPABLE, 0)  # other processes of the guest may not look into this one


def _tasks(limits: Mapping[str, Any]) -> int:
    """Return how many processes and threads the kernel allows; older kernels count all that the user has."""
    version = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])
    return int(limits["processes"] + limits["threads"]) if version >= (5, 14) else 4096


def _control(what: int, value: int) -> None:
    _done(_libc.prctl(what, value, 0, 0, 0), f"prctl {what}")


def _mount(what: bytes, mount_point: bytes, kind: bytes, flags: int, options: bytes) -> None:
    _done(_libc.mount(what, mount_point, kind, ctypes.c_ulong(flags), options), f"mounting {mount_point.decode()}")


def _done(code: int, what: str) -> None:
    """Raise `OSError` with `what` if the code that a function of the C library returned is not 0."""
    if code:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
