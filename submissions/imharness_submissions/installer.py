"""Starts uv and git on what strangers wrote, so that nothing of it can run on this machine.

uv takes wheels alone, of the index or with a hash: it builds nothing, reads no settings from folders or homes, and gets
few environment variables beyond those that say how the index is reached.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.reading.text import plain
from imharness.reading.wheels import UNPACKED

TIMEOUT_S = 900
_REACHING = (
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
)
"""Environment variables in which a maintainer configures access to the network, and the package index to use."""
_GIT = (
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "filter.lfs.smudge=",
    "credential.helper=",
    "core.askPass=true",
    "protocol.allow=never",
    "protocol.https.allow=always",
)
"""Settings of git: it runs no program of a repository, and asks for no private one in the name of the maintainer."""


def isolated_environment(home: Path) -> dict[str, str]:
    """Return all environment variables of a program that works on files by strangers; `home` is its home folder."""
    names = [name for variable in _REACHING for name in (variable, variable.upper())]
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    fixed = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}
    return {**inherited, **fixed, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def uv() -> str:
    """Return the path of uv; raises `Unavailable` without it."""
    executable = shutil.which(
        "uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )
    if executable is None:
        raise Unavailable("submitted packages are unpacked by uv, which is not installed", "pip install uv")
    return executable


def unpack(requirements: Sequence[str], target: Path, workspace: Path, what: str, *, pinned: bool) -> None:
    """Unpack wheels into `target`, a folder in `workspace`; everything else that uv writes is in `workspace`, too.

    Args:
        requirements: lines of a requirements file.
        target: the folder for the files of the wheels.
        workspace: a folder that exists.
        what: names the step in messages.
        pinned: every requirement needs a hash, and dependencies are not added; otherwise they are taken from the index.

    Raises:
        HarnessError: uv fails, or takes longer than `TIMEOUT_S`.
        UsageError: the files become too large.
    """
    listed = workspace / "requirements.txt"
    listed.write_text("\n".join(requirements) + "\n", encoding="utf-8")
    line = [*_pip("install", workspace), "--target", str(target), "--requirement", str(listed)]
    line += ["--no-deps", "--require-hashes"] if pinned else []
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            line,
            cwd=workspace,
            env=isolated_environment(workspace),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            _watch(process, workspace)
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        if process.returncode:
            raise _failed(what, errors.read())


def resolved(requirements: Sequence[str], here: Mapping[str, str]) -> str:
    """Return requirements and what they need as lines with versions and hashes, without those that are `here`."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        (workspace / "in.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
        (workspace / "here.txt").write_text(
            "".join(f"{name}=={version}\n" for name, version in sorted(here.items())), encoding="utf-8"
        )
        line = [*_pip("compile", workspace), "--generate-hashes", "--no-header", "--no-annotate"]
        line += ["--constraint", str(workspace / "here.txt")]
        line += [argument for name in sorted(here) for argument in ("--no-emit-package", name)]
        return _call([*line, str(workspace / "in.txt")], "resolving what the package needs", workspace)


def checked_out(address: str, commit: str, target: Path) -> None:
    """Clone a repository and check a commit out; `target` is made. Nothing of the repository runs."""
    workspace = target.parent
    git = ["git", *(argument for setting in _GIT for argument in ("-c", setting))]
    _call([*git, "clone", "--quiet", "--no-checkout", address, str(target)], "cloning the repository", workspace)
    line = [*git, "-C", str(target), "checkout", "--quiet", "--detach", commit]
    _call(line, "checking the commit out", workspace)


def _pip(command: str, workspace: Path) -> list[str]:
    """Return how uv is started: with its cache in `workspace`, without settings of files and without building."""
    line = [uv(), "pip", command, "--quiet", "--no-config", "--no-build", "--python", sys.executable]
    return [*line, "--no-python-downloads", "--keyring-provider", "disabled", "--cache-dir", str(workspace / "cache")]


def _call(line: Sequence[str], what: str, workspace: Path) -> str:
    """Run a program without a shell, and return what it printed.

    `what` names the step in messages. Raises `HarnessError` with the program's last lines when it fails, and when it
    takes longer than `TIMEOUT_S`.
    """
    try:
        done = subprocess.run(
            line,
            cwd=workspace,
            env=isolated_environment(workspace),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"{what} took longer than {TIMEOUT_S} s") from None
    if done.returncode:
        raise _failed(what, done.stderr)
    return done.stdout.decode(errors="replace")


def _failed(what: str, errors: bytes) -> HarnessError:
    lines = errors.decode(errors="replace").strip().split("\n")
    return HarnessError(f"{what} failed: {plain(' '.join(lines[-6:]))[:600] or 'no reason given'}")


def _watch(process: subprocess.Popen[bytes], workspace: Path) -> None:
    """Wait for the installer; raises `HarnessError` when it takes long, `UsageError` when it writes too much.

    It unpacks into its cache, which is below `workspace`, and then into its target: this counts both.
    """
    until = time.monotonic() + TIMEOUT_S
    while process.poll() is None:
        if _bytes_below(workspace) > 2 * UNPACKED:
            raise UsageError(f"the package and what it needs have more than {UNPACKED} bytes")
        if time.monotonic() > until:
            raise HarnessError(f"unpacking the package took longer than {TIMEOUT_S} s")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.25)


def _bytes_below(folder: Path) -> int:
    """Return how much lies below a folder while others change it."""
    size = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(top, name)).st_size
    return size
