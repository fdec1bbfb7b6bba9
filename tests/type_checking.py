"""Type-checks packages as others would do it: strictly, and without settings of ours."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from imharness.results.disk import lock

KNOWN = Path(__file__).resolve().parents[1] / ".mypy_cache" / "third-party"
"""What is known of torch and of the doors: to find that out takes 15 s, the check of a package less than one."""
SETTINGS = "[mypy]\nstrict = True\ndisallow_any_unimported = True\n"


def type_checked(files: Iterable[str | Path], folder: Path) -> str:
    """Return what the type checker says of files, which must have no errors; it is started in a folder."""
    (folder / "settings.ini").write_text(SETTINGS)
    KNOWN.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "settings.ini",
        "--cache-dir",
        str(KNOWN),
        *map(str, files),
    ]
    turn = os.open(KNOWN / ".turn", os.O_RDWR | os.O_CREAT)
    try:
        lock(turn, wait=True)  # the second of two processes knows what the first has found out
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    finally:
        os.close(turn)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
