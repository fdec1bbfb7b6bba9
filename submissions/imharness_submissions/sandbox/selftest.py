"""Tests the sandbox on this machine: run inside, it tries what a plugin must not do, and says what succeeded."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from imharness.components.hookspecs import hookimpl
from imharness.errors import Unavailable
from imharness_submissions.sandbox.jail import GuestSpec
from imharness_submissions.sandbox.seccomp import program

SECRET = "HARNESS_SANDBOX_SELFTEST"


def look(descriptors: Collection[int] = ()) -> dict[str, bool]:
    """Return what this process can do, each under a short description; `descriptors` are files that it may hold."""
    return {
        "reads the environment of the host": SECRET in os.environ,
        "opens a network socket": _can(lambda: socket.socket(socket.AF_INET).close()),
        "reaches the network": _can(lambda: socket.create_connection(("127.0.0.1", 9), timeout=1).close()),
        "writes outside its folder": any(map(_writes, ("/x", "/usr/x", "/plugin/x"))),
        "sees other processes": len([p for p in os.listdir("/proc") if p.isdigit()]) > 1,
        "holds open files of the host": any(_inherited(fd) for fd in range(3, 256) if fd not in descriptors),
        "sees home folders": any(os.path.isdir(p) and os.listdir(p) for p in ("/home", "/srv", "/mnt")),
    }


def _can(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


def _writes(path: str) -> bool:
    return _can(lambda: Path(path).write_text("x", encoding="utf-8"))


def _inherited(fd: int) -> bool:
    try:
        return not os.readlink(f"/proc/self/fd/{fd}").startswith(("/proc", "/dev/null"))
    except OSError:
        return False


def selftest() -> dict[str, bool]:
    """Start the sandbox and return what code in it can do; raises `Unavailable` where it does not work."""
    from imharness_submissions.sandbox.host import Guest  # the guest imports this module, too

    with tempfile.TemporaryDirectory() as folder:
        guest = Guest(GuestSpec("selftest", Path(folder)))
        secret = os.environ.get(SECRET)
        os.environ[SECRET] = "x"
        try:
            facts = guest.open().request("look").facts
        finally:
            guest.kill()
            if secret is None:
                del os.environ[SECRET]
    return {str(name): bool(able) for name, able in facts.items() if name != "attempts"}


@hookimpl
def doctor() -> dict[str, str]:
    """Return the line that `harness doctor` shows of the sandbox."""
    return {"sandbox": verdict()}


def verdict() -> str:
    """Try the sandbox, and return in one line how code is isolated, or what is wrong."""
    try:
        open_ways = [what for what, able in selftest().items() if able]
    except Unavailable as error:
        return f"none: {error}"
    if open_ways:
        return f"does not hold: code inside {'; '.join(open_ways)}"
    return "bubblewrap" + ("+seccomp" if program() else "") + ", holds"
