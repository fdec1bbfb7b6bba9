"""A seccomp-BPF program that denies the system calls that code in the sandbox never needs."""

from __future__ import annotations

import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_NUMBER, _ARCH = 0, 4
_FIRST_ARGUMENT, _SECOND_ARGUMENT, _FOURTH_ARGUMENT = 16, 24, 40
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEW* of user, pid, net, uts, ipc, cgroup and mount."""
_AF_UNIX = 1

_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_DENIED = {
    "x86_64": {
        "ptrace": 101, "syslog": 103, "personality": 135, "pivot_root": 155, "acct": 163, "mount": 165, "umount2": 166,
        "swapon": 167, "swapoff": 168, "reboot": 169, "init_module": 175, "delete_module": 176, "quotactl": 179,
        "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298,
        "fanotify_init": 300, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
        "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_load": 246, "bpf": 321, "userfaultfd": 323,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
        "fsopen": 430, "fsconfig": 431, "fsmount": 432, "pidfd_getfd": 438, "mount_setattr": 442, "chroot": 161,
        "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "shmat": 30, "shmctl": 31, "msgget": 68, "semget": 64,
        "mq_open": 240, "flock": 73, "inotify_init": 253, "inotify_init1": 294, "inotify_add_watch": 254,
        "socket": 41, "socketpair": 53, "splice": 275, "tee": 276, "vmsplice": 278,
    },
    "aarch64": {
        "ptrace": 117, "syslog": 116, "personality": 92, "pivot_root": 41, "acct": 89, "mount": 40, "umount2": 39,
        "swapon": 224, "swapoff": 225, "reboot": 142, "init_module": 105, "delete_module": 106, "quotactl": 60,
        "add_key": 217, "request_key": 218, "keyctl": 219, "unshare": 97, "perf_event_open": 241,
        "fanotify_init": 262, "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270,
        "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "kexec_load": 104, "bpf": 280, "userfaultfd": 282,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
        "fsopen": 430, "fsconfig": 431, "fsmount": 432, "pidfd_getfd": 438, "mount_setattr": 442, "chroot": 51,
        "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "shmat": 196, "shmctl": 195, "msgget": 186,
        "semget": 190, "mq_open": 180, "flock": 32, "inotify_init1": 26, "inotify_add_watch": 27,
        "socket": 198, "socketpair": 199, "splice": 76, "tee": 77, "vmsplice": 75,
    },
}  # fmt: skip
_OF_DRIVERS = ("memfd_create", "socket", "socketpair")
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_SOCKET = {"x86_64": 41, "aarch64": 198}
_MMAP, _FCNTL = {"x86_64": 9, "aarch64": 222}, {"x86_64": 72, "aarch64": 25}
_SHARED_ANONYMOUS = 0x21
"""MAP_SHARED | MAP_ANONYMOUS: memory that still counts for nobody after its pages are unmapped."""
_NOTHING = 0xFFFFFFFF
_LOCKS = (6, 7, 37, 38, 1024, 1026)
"""Commands of fcntl that set locks and leases, which other processes see."""


def program(machine: str | None = None, *, gpu: bool = False) -> bytes:
    """Return the filter for this machine's architecture; empty where the architecture is not known.

    These calls fail with EPERM:

    - tracing, mounting, kernel keys, modules, io_uring, other namespaces and sockets;
    - calls that make memory which counts for no process: shared memory without a file in a folder, and pages in pipes;
    - locks on files and watching them, by which processes that run at the same time could talk.

    `clone3` fails with ENOSYS, because no filter can read its flags; libraries then use `clone`. With a GPU, shared
    memory and local sockets are allowed, because its driver needs the former and may need the latter.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHES:
        return b""
    # A comparison skips `yes` lines if it holds, and `no` lines if not.
    lines = [
        _line(_LOAD, _ARCH),
        _line(_EQUAL, _ARCHES[machine], 1, 0),
        _line(_RETURN, KILL),
        _line(_LOAD, _NUMBER),
        _line(_AT_LEAST, _X32, 0, 1),
        _line(_RETURN, KILL),
    ]
    denied = [number for name, number in _DENIED[machine].items() if not (gpu and name in _OF_DRIVERS)]
    for number in sorted(denied):
        lines += [_line(_EQUAL, number, 0, 1), _line(_RETURN, _ERRNO | _EPERM)]
    lines += [_line(_EQUAL, _CLONE3, 0, 1), _line(_RETURN, _ERRNO | _ENOSYS)]
    # Five blocks: the number is compared, then an argument if it is equal; otherwise the next block follows.
    lines += [
        _line(_EQUAL, _CLONE[machine], 0, 4),
        _line(_LOAD, _FIRST_ARGUMENT),
        _line(_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        _line(_RETURN, _ERRNO | _EPERM),
        _line(_RETURN, ALLOW),
        _line(_EQUAL, _SOCKET[machine], 0, 4),
        _line(_LOAD, _FIRST_ARGUMENT),
        _line(_EQUAL, _AF_UNIX, 1, 0),
        _line(_RETURN, _ERRNO | _EPERM),
        _line(_RETURN, ALLOW),
        _line(_EQUAL, _MMAP[machine], 0, 5),
        _line(_LOAD, _FOURTH_ARGUMENT),
        _line(_AND, _SHARED_ANONYMOUS),
        _line(_EQUAL, _NOTHING if gpu else _SHARED_ANONYMOUS, 0, 1),
        _line(_RETURN, _ERRNO | _EPERM),
        _line(_RETURN, ALLOW),
        _line(_EQUAL, _FCNTL[machine], 0, len(_LOCKS) + 3),
        _line(_LOAD, _SECOND_ARGUMENT),
        *(_line(_EQUAL, command, len(_LOCKS) - index, 0) for index, command in enumerate(_LOCKS)),
        _line(_RETURN, ALLOW),
        _line(_RETURN, _ERRNO | _EPERM),
        _line(_RETURN, ALLOW),
    ]
    return b"".join(lines)


def _line(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Return one instruction; `yes`, `no`: how many of the next ones a comparison skips if it holds, and if not."""
    return struct.pack("<HBBI", code, yes, no, value)
