"""The page on many machines, word for word on this one: three nodes, an object server, the rows of a local run."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.plugins.ray.test_command import MARK, left_behind
from tests.rows_of import rows_of
from tests.typed_commands import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]

PORTS = ("6379", "9000")
INSTALL = "pip install 'image-privacy-harness[ray]' 'moto[server]'\n"


def free_ports(count: int) -> list[str]:
    """Return ports that are free and stay so: none of those that a system hands out by itself."""
    ports = list[str]()
    for port in random.Random().sample(range(20000, 30000), 1000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(str(port))
        if len(ports) == count:
            break
    return ports


def script() -> str:
    """The section's commands, on ports that are free here, without the first, which has been done."""
    page = (ROOT / "docs" / "howto" / "machines.md").read_text()
    section = page.partition("## Try it on one machine\n")[2].partition("\n## ")[0]
    commands = "".join(f"{line[4:]}\n" for line in section.splitlines() if line.startswith("    "))
    assert commands.startswith(INSTALL)
    commands = commands.removeprefix(INSTALL)
    for port, free_port in zip(PORTS, free_ports(len(PORTS)), strict=True):
        assert port in commands
        commands = commands.replace(port, free_port)
    return commands


def test_who_follows_the_page_gets_the_rows_of_a_local_run(tmp_path: Path) -> None:
    pytest.importorskip("moto.server")
    mark, path = uuid.uuid4().hex, f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script()],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, MARK: mark},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=1800)
    except subprocess.TimeoutExpired:
        logs = "".join(f"== {log.name}\n{log.read_text()[-2000:]}\n" for log in sorted(tmp_path.glob("*.log")))
        pytest.fail(f"the page's commands did not end:\n{logs}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, f"{out}\n{err}"
    assert left_behind(mark, "Agent") == []
    assert "0 damaged" in out
    assert len(rows_of(tmp_path / "store")) == 40
    assert "finished" in out
    page, alone = (tmp_path / name / "perceptual.html" for name in ("site", "alone-site"))
    assert page.is_file()
    assert alone.is_file()
