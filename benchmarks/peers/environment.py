"""The environment of the peers: this harness and the libraries it is compared with, in a folder of the cache."""

import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

from imharness.errors import Unavailable

ROOT = Path(__file__).resolve().parents[2]
PEERS = ("foolbox>=3.3,<4", "opacus>=1.5,<2", "piq>=0.8,<1", "pytorch-msssim>=1,<2", "torchmetrics>=1,<2")
ALONE = ("torchattacks>=3.5,<4",)
"""Installed without what they ask for: torchattacks wants a `requests` of 2020, which nothing here uses."""


def python() -> Path:
    """Return the interpreter of the environment, which is made or brought up to date first.

    Raises `Unavailable` where the package registry cannot be reached.
    """
    folder = Path(platformdirs.user_cache_dir("image-privacy-harness")) / "peers"
    interpreter = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    uv = shutil.which("uv")
    if not interpreter.exists():
        _run(
            [uv, "venv", "--quiet", "--python", sys.executable, folder]
            if uv
            else [sys.executable, "-m", "venv", folder]
        )
    install = [uv, "pip", "install", "--python", interpreter] if uv else [interpreter, "-m", "pip", "install"]
    _run([*install, "--quiet", "--editable", ROOT, *PEERS])
    _run([*install, "--quiet", "--no-deps", *ALONE])
    return interpreter


def _run(command: list[object]) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unavailable(f"the peers could not be installed: {last}")
