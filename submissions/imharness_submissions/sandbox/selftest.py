"""Tests the sandbox on this machine: run inside, it tries what a plugin must not do, and prints what succeeded."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from imharness.errors import Unavailable
from imharness_submissions.sandbox.jail import GuestSpec, arguments, filter_file, interpreter, require_sandbox
from imharness_submissions.sandbox.seccomp import program

SECRET = "HARNESS_SANDBOX_SELFTEST"
_MODULE = "imharness_submissions.sandbox.selftest"


def look() -> dict[str, Any]:
    """Return what this process can do, each under a short description."""
    return {
        "reads the environment of the host": SECRET in os.environ,
        "opens a network socket": _can(lambda: socket.socket(socket.AF_INET).close()),
        "reaches the network": _can(lambda: socket.create_connection(("127.0.0.1", 9), timeout=1).close()),
        "writes outside its folder": any(map(_writes, ("/x", "/usr/x", "/plugin/x"))),
        "sees processes of the host": len([p for p in os.listdir("/proc") if p.isdigit()]) > 4,
        "holds open files of the host": any(map(_inherited, range(3, 256))),
        "sees home folders": any(os.path.isdir(p) and os.listdir(p) for p in ("/home", "/srv", "/mnt")),
    }


def _can(work: Callable[[], object]) -> bool:
    try:
        work()
    except OSError:
        return False
    return True


def _writes(path: str) -> bool:
    return _can(lambda: Path(path).write_text("x"))


def _inherited(fd: int) -> bool:
    try:
        return not os.readlink(f"/proc/self/fd/{fd}").startswith(("/proc", "/dev/null"))
    except OSError:
        return False


def selftest() -> dict[str, bool]:
    """Start the sandbox and return what code in it can do; raises `Unavailable` where it does not work."""
    require_sandbox()
    with tempfile.TemporaryDirectory() as folder:
        spec = GuestSpec("selftest", Path(folder))
        with filter_file(spec) as fd:
            line = arguments(spec, fd, [*interpreter(), "-m", _MODULE])
            done = subprocess.run(
                line,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={**os.environ, SECRET: "x"},
                pass_fds=() if fd is None else (fd,),
                timeout=60,
                check=False,
            )
    if done.returncode:
        return {f"does not start: {done.stderr.decode(errors='replace').strip()[-200:]}": True}
    found: Mapping[str, Any] = json.loads(done.stdout)
    return {str(name): bool(value) for name, value in found.items()}


def verdict() -> str:
    """Try the sandbox, and return the line that `harness doctor` shows: how code is isolated, or what is wrong."""
    try:
        open_doors = [what for what, able in selftest().items() if able]
    except Unavailable as error:
        return f"none: {error}"
    if open_doors:
        return f"does not hold: code inside {'; '.join(open_doors)}"
    return "bubblewrap" + ("+seccomp" if program() else "") + ", holds"


if __name__ == "__main__":
    print(json.dumps(look()))  # noqa: T201
