"""What a guest finds inside, and what is refused when there is no sandbox."""

import subprocess
from pathlib import Path

import pytest

from harness.errors import Unavailable
from harness.sandbox import jail, seccomp
from harness.sandbox.jail import GuestSpec, require_sandbox

LOOK = """
import json, os, socket, ctypes
def allowed(work):
    try: work(); return True
    except OSError: return False
libc = ctypes.CDLL(None, use_errno=True)
print(json.dumps({
    "environment": sorted(os.environ),
    "fds": [fd for fd in range(3, 200) if os.path.exists(f"/proc/self/fd/{fd}")
            and not os.readlink(f"/proc/self/fd/{fd}").startswith("/proc")],
    "processes": len([p for p in os.listdir("/proc") if p.isdigit()]),
    "root": sorted(os.listdir("/")),
    "socket": allowed(lambda: socket.socket(socket.AF_INET)),
    "local": allowed(lambda: socket.socketpair()),
    "write": allowed(lambda: open("/plugin/x", "w")),
    "unshare": libc.unshare(0x10000000),
    "masked": os.listdir(MASKED),
}))
"""


def test_nothing_of_the_outside_is_inside(sandbox: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    import harness_embedded

    monkeypatch.setenv("SECRET_TOKEN", "x")
    masked = Path(harness_embedded.__file__).parent
    monkeypatch.setattr(jail, "roots", lambda: (*found, masked.parent))
    monkeypatch.setattr(jail, "command", lambda spec: ["/usr/bin/env", found_python, "-c", LOOK])
    spec = GuestSpec("x", tmp_path, masked=(masked,))
    with jail._filter(spec) as filter_fd:
        line = jail.arguments(spec, filter_fd)
        line[-1] = LOOK.replace("MASKED", repr(str(masked)))
        done = subprocess.run(line, capture_output=True, check=False, pass_fds=(filter_fd,) if filter_fd else ())
    seen = json.loads(done.stdout or "{}")
    assert done.returncode == 0, done.stderr.decode()
    assert "SECRET_TOKEN" not in seen["environment"]
    assert seen["fds"] == []
    assert seen["processes"] <= 3
    assert not {"home", "root", "work", "srv", "mnt", "var"} & set(seen["root"]) - {p.parts[1] for p in jail.roots()}
    assert (seen["write"], seen["masked"]) == (False, [])
    if seccomp.program():
        assert (seen["socket"], seen["local"], seen["unshare"]) == (False, True, -1)


found = jail.roots()
found_python = jail.command(GuestSpec("x", Path()))[0]


def test_without_bubblewrap_untrusted_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match="apt-get install bubblewrap"):
        require_sandbox()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_the_filter_is_whole(machine: str) -> None:
    """Every jump lands inside the program; the last line allows."""
    code = seccomp.program(machine)
    if machine == "riscv64":
        assert code == b""
        return
    lines = [code[i : i + 8] for i in range(0, len(code), 8)]
    for place, line in enumerate(lines):
        assert place + 1 + max(line[2], line[3]) < len(lines) or line[0] == 0x06
    assert lines[-1] == bytes.fromhex("0600000000 00ff7f".replace(" ", ""))
