"""The image that clusters use: its steps are run with stand-ins for the system's commands, in both variants."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.typed_commands import ROOT

FILE = ROOT / "deploy" / "Dockerfile"
TEXT = FILE.read_text()
LOCK = (ROOT / "requirements.lock").read_text()
STAND_IN = """#!/bin/bash
printf '%s\\t%s\\t%s\\n' "$(basename "$0")" "${PIP_EXTRA_INDEX_URL:-}" "$*" >> "$LOG"
"""


def arguments() -> dict[str, str]:
    return dict(re.findall(r"^ARG (\w+)=(\S+)$", TEXT, re.M))


def steps(folder: Path, **given: str) -> list[list[str]]:
    """Run the RUN steps; return (command, extra index, arguments) of each call."""
    for name in ("apt-get", "pip", "rm"):
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(0o755)
    environment = (
        {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "LOG": str(folder / "log")} | arguments() | given
    )
    shutil.copy(ROOT / "requirements.lock", folder)
    for step in re.findall(r"^RUN (.+)$", TEXT, re.M):
        subprocess.run(["sh", "-euc", step], env=environment, check=True, timeout=400, cwd=folder)
    return [line.split("\t") for line in (folder / "log").read_text().splitlines()]


@pytest.mark.parametrize(("variant", "index"), [("cpu", "https://download.pytorch.org/whl/cpu"), ("gpu", "")])
def test_its_steps_install_the_sandbox_and_the_harness(tmp_path: Path, variant: str, index: str) -> None:
    calls = steps(tmp_path, VARIANT=variant, EXTRAS="ray,dp")
    assert [name for name, _, _ in calls] == ["apt-get", "apt-get", "rm", "pip"]
    assert calls[1][2].split()[0] == "install"
    assert calls[1][2].split()[-1] == "bubblewrap"
    assert calls[3][1] == index
    assert "--constraint versions.txt" in calls[3][2]
    versions = (tmp_path / "versions.txt").read_text().splitlines()
    locked = re.findall(r"^[\w.-]+==[^\s\\]+", LOCK, re.M)
    assert [str(Requirement(line)).partition(";")[0].strip() for line in versions] == locked
    own, ray = shlex.split(calls[3][2])[-2:]
    assert own == "/home/ray/harness[ray,dp]"
    assert Requirement(ray).specifier.contains(arguments()["RAY"])


def test_it_ends_as_a_user_who_is_not_root_and_names_extras_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert re.findall(r"^USER (\w+)$", TEXT, re.M)[-1] == "ray"
    assert set(arguments()["EXTRAS"].split(",")) <= set(extras)
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).resolve() == FILE
    assert set(container["build"]["args"]["EXTRAS"].split(",")) <= set(extras)
    assert set(container["build"]["args"]) <= set(arguments())
    assert container["remoteUser"] == "ray"


def test_pages_build_it_by_arguments_that_it_has() -> None:
    pages = "".join(page.read_text() for page in [FILE, *(ROOT / "docs").glob("howto/*.md")])
    assert set(re.findall(r"--build-arg (\w+)=", pages)) == {"VARIANT"} <= set(arguments())
