"""What other systems lack is asked for where it is used: every module but the sandbox's can be imported without it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import importlib, pathlib, pkgutil, sys

sys.modules.update(dict.fromkeys(("fcntl", "resource")))
from imharness.errors import Unavailable

for root in sys.argv[2:]:
    package = importlib.import_module(root)
    for found in pkgutil.walk_packages(package.__path__, f"{root}."):
        if ".sandbox" in found.name or found.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(found.name)
        except Unavailable:
            pass  # a library of an extra
        except ImportError as error:
            print(found.name, error)

from imharness.results.storage.local import LocalFiles
from imharness.testing import usual

files = LocalFiles(pathlib.Path(sys.argv[1]))
for line in (b"one", b"two"):
    files.append("lines", lambda before, line=line: line)
print(files.lines("lines"), usual._peak())
"""


def test_every_module_but_the_sandboxs_is_imported_without_locks_and_limits_of_linux(tmp_path: Path) -> None:
    places = [ROOT / name for name in ("core", "plugins", "leaderboard", "submissions")]
    packages = sorted(file.parent.name for place in places for file in place.glob("imharness*/__init__.py"))
    assert {"imharness", "imharness_submissions", "imharness_leaderboard", "imharness_iqa"} <= set(packages)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), *packages]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    assert ran.stdout == "[b'one', b'two'] None\n"
