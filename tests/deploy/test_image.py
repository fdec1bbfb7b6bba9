"""The image that clusters use: its steps are run with fake commands of the system, in both variants."""

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
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
STAND_IN = """#!/bin/bash
printf '%s\\t%s\\t%s\\n' "$(basename "$0")" "${UV_TORCH_BACKEND:-}" "$*" >> "$LOG"
"""
"""Writes its name, the kind of torch and its arguments into the file LOG, and does nothing else."""


def arguments() -> dict[str, str]:
    return dict(re.findall(r"^ARG (\w+)=(\S+)$", TEXT, re.M))


def steps(folder: Path, **variables: str) -> list[list[str]]:
    """Run the RUN steps; return (command, kind of torch, arguments) of each call."""
    for name in ("apt-get", "pip", "rm", "uv"):
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(0o755)
    environment = (
        {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "LOG": str(folder / "log")} | arguments() | variables
    )
    shutil.copy(ROOT / "requirements.lock", folder)
    for step in re.findall(r"^RUN (.+)$", TEXT, re.M):
        subprocess.run(["sh", "-euc", step], env=environment, check=True, timeout=400, cwd=folder)
    return [line.split("\t") for line in (folder / "log").read_text().splitlines()]


@pytest.mark.parametrize(("variant", "torch"), [("cpu", "cpu"), ("gpu", "")])
def test_its_steps_install_the_sandbox_and_the_harness(tmp_path: Path, variant: str, torch: str) -> None:
    calls = steps(tmp_path, VARIANT=variant, EXTRAS="ray,dptest")
    assert [name for name, _, _ in calls] == ["apt-get", "apt-get", "rm", "pip", "uv", "uv"]
    assert calls[1][2].split()[0] == "install"
    assert calls[1][2].split()[-1] == "bubblewrap"
    (_, backend, words), (_, _, last) = calls[4:]
    assert backend == torch
    assert "--constraint versions.txt --requirement pyproject.toml --extra ray --extra dptest ray[" in words
    versions = (tmp_path / "versions.txt").read_text(encoding="utf-8").splitlines()
    locked = re.findall(r"^[\w.-]+==[^\s\\]+", LOCK, re.M)
    assert [str(Requirement(line)).partition(";")[0].strip() for line in versions] == locked
    assert Requirement(shlex.split(words)[-1]).specifier.contains(arguments()["RAY"])
    assert last == "pip install --system --no-cache --no-deps ."
    assert steps(tmp_path, VARIANT=variant, EXTRAS="")[-2][2].count("--extra") == 0


def test_packages_are_installed_before_the_sources_come() -> None:
    assert (
        re.findall(r"^(COPY .*|RUN .*uv pip)", TEXT, re.M)[0] == "COPY --chown=ray pyproject.toml requirements.lock ./"
    )
    assert TEXT.index("--requirement pyproject.toml") < TEXT.index("COPY --chown=ray . .") < TEXT.index("--no-deps .")


def test_the_image_gets_what_the_wheel_is_built_of_and_no_results() -> None:
    first, *further = [line for line in IGNORED.splitlines() if not line.startswith("#")]
    listed = {line.removeprefix("!") for line in further if line.startswith("!")}
    assert first == "*"
    assert [line for line in further if not line.startswith("!")] == ["**/__pycache__"]
    built = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"LICENSE", "README.md", "hatch_build.py", "pyproject.toml", "requirements.lock", *built["only-include"]}
    assert listed == needed | {*built["force-include"]}
    assert all((ROOT / name).exists() for name in listed)


def test_it_ends_as_a_user_who_is_not_root_and_names_extras_that_exist() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert re.findall(r"^USER (\w+)$", TEXT, re.M)[-1] == "ray"
    assert set(arguments()["EXTRAS"].split(",")) <= set(extras)


def test_the_container_for_work_on_the_harness_has_what_tests_need() -> None:
    folder = ROOT / ".devcontainer"
    text = re.sub(r"^ *//.*$", "", (folder / "devcontainer.json").read_text(encoding="utf-8"), flags=re.M)
    container = json.loads(text)
    image = (folder / container["build"]["dockerfile"]).read_text(encoding="utf-8")
    assert {"bubblewrap", "chromium"} <= set(image.split())
    assert {f"{what}=unconfined" for what in ("seccomp", "apparmor", "systempaths")} <= set(container["runArgs"])
    (installed,) = re.findall(r"'\.\[(.*)\]'", container["postCreateCommand"])
    # What pip installs for a user is in a folder that `remoteEnv` leaves out of PATH.
    programs = [step.split()[0] for step in container["postCreateCommand"].split(" && ")]
    assert programs[0] == "python3"
    assert all(program.startswith(".venv/bin/") for program in programs[1:])
    assert set(installed.split(",")) <= set(PROJECT["project"]["optional-dependencies"])


def test_pages_build_it_by_arguments_that_it_has() -> None:
    pages = "".join(page.read_text() for page in [FILE, *(ROOT / "docs").glob("howto/*.md")])
    assert set(re.findall(r"--build-arg (\w+)=", pages)) == {"VARIANT"} <= set(arguments())
