"""Without what Windows lacks, every module but those of the sandbox is imported, and a small run ends with tables.

`other_system/sitecustomize.py` removes these features from the interpreter and from every process that it starts.
"""

import ast
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLACES = [ROOT / name for name in ("core", "plugins", "leaderboard", "submissions")]

IMPORTED = """
import importlib, pkgutil, runpy, sys

from imharness.errors import Unavailable

for root in sys.argv[1:]:
    package = importlib.import_module(root)
    for found in pkgutil.walk_packages(package.__path__, f"{root}."):
        if ".sandbox" in found.name or found.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(found.name)
        except Unavailable:
            pass  # a library of an extra
        except (AttributeError, ImportError) as error:
            print(found.name, error)

from imharness.testing import usual

print(usual._peak())

for words in (
    ("plugins", "check", "harness/mae"),
    ("run", "--profile", "small.toml", "--all", "--limit", "2", "--workers", "1"),
):
    sys.argv[1:] = words
    try:
        runpy.run_module("imharness", run_name="__main__", alter_sys=True)  # as `python -m imharness` does
    except SystemExit as ended:
        if ended.code:
            raise
    print("=" * 9)
"""

PROFILE = """
name = "small"
description = "A few tasks of every track, computed in seconds."

[tracks."harness/iqa"]
select = { dataset = ["pictures[size=72]"], metric = ["embedded-cnn"], attack = ["ifgsm"], defense = ["none", "jpeg"] }
options = { strengths = ["medium"], presets = "embedded" }

[tracks."harness/membership"]
select = { dataset = ["digits"], model = ["mlp"], defense = ["plain-training"], evaluator = ["confidence"] }
options = { splits = 2, epochs = 2, references = 3, copies = 1, matched = false }
parameters."harness/mlp" = { hidden = [16] }

[tracks."harness/perceptual"]
select = { dataset = ["distorted-pairs[size=48,per_photograph=1]"], metric = ["l2", "psnr"], attack = ["ifgsm"] }
options = { radii = [4] }
parameters."harness/ifgsm" = { iterations = 2 }

[tracks."harness/reconstruction"]
options = { epochs = 1, batch_size = 32, learning_rate = 0.05, judge = "harness/convnet8[width=2]" }
parameters."harness/invgrad" = { steps = 20 }

[tracks."harness/reconstruction".select]
dataset = ["thumbnails[size=20]"]
model = ["lenet"]
attack = ["invgrad"]
defense = ["plain-gradient"]
metric = ["psnr"]
"""

LOCKED = """
import pathlib, subprocess, sys

from imharness.errors import StoreError
from imharness.results.disk import alone
from imharness.results.storage.local import LocalFiles

root = pathlib.Path(sys.argv[1])
files = LocalFiles(root)
for line in (b"1", b"2"):
    files.append("lines", lambda before, line=line: line)
try:
    with alone(root, wait_s=0):
        print(files.lines("lines"), flush=True)
        if len(sys.argv) == 2:
            subprocess.run([sys.executable, "-c", sys.orig_argv[2], str(root), "second"], check=True)
except StoreError as error:
    print(str(error).partition(str(root))[0], files.lines("lines"))
"""


def elsewhere(*arguments: str, folder: Path | None = None) -> str:
    """Return what a Python without the features that Windows lacks prints; the process must end well."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests" / "other_system"), "PYTHONWARNDEFAULTENCODING": "1"}
    ran = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=500, cwd=folder, env=environment
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    return ran.stdout


@dataclass(frozen=True)
class Done:
    """What one process printed: of importing, of a check of a plugin, and of a run with its pages in `folder`."""

    imported: str
    checked: str
    ran: str
    folder: Path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    packages = sorted(file.parent.name for root in PLACES for file in root.glob("imharness*/__init__.py"))
    assert {"imharness", "imharness_submissions", "imharness_leaderboard", "imharness_iqa"} <= set(packages)
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "small.toml").write_text(PROFILE, encoding="utf-8")
    output = elsewhere("-c", IMPORTED, *packages, folder=folder)
    (checked, ran, _), imported = output.split("=" * 9 + "\n"), output.partition("\n")[0]
    return Done(imported, checked, ran, folder)


def test_every_module_but_the_sandboxs_is_imported(done: Done) -> None:
    """No module is named as one that cannot be imported; the peak of memory, which Windows does not tell, is None."""
    assert done.imported == "None"


def test_components_are_checked_without_alarms_and_forks(done: Done) -> None:
    assert " 0 failed" in done.checked
    assert "harness/mae" in done.checked


def test_a_second_process_waits_for_locks_or_is_refused(tmp_path: Path) -> None:
    assert elsewhere("-c", LOCKED, str(tmp_path)).splitlines() == [
        "[b'1', b'2']",
        "another process has been changing  [b'1', b'2', b'1', b'2']",
    ]


def test_a_small_run_of_all_tracks_ends_with_tables(done: Done) -> None:
    """On a worker of its own, which is started anew and not forked."""
    assert "none failed" in done.ran
    for track in ("iqa", "membership", "perceptual", "reconstruction"):
        assert "<table" in (done.folder / "site" / f"{track}.html").read_text(encoding="utf-8")


def test_every_text_file_has_its_encoding_named() -> None:
    texts = ((file.name, file.read_bytes()) for root in PLACES for file in root.rglob("*.py"))
    calls = [
        (name, node.lineno)
        for name, text in texts
        if b"_text" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and _is_text(node) and "encoding" not in {word.arg for word in node.keywords}
    ]
    assert calls == []


def _is_text(call: ast.Call) -> bool:
    """Return whether a call reads or writes a text by its path; a function of one's own takes arguments to read."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name == "write_text" or (name == "read_text" and not call.args)
