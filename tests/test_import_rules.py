"""The import rules hold, and each would catch the import it forbids."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("core", "plugins", "leaderboard")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(folder / part) for part in PARTS)}
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--config", str(folder / "pyproject.toml"), "--no-cache"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for part in PARTS:
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_rules_hold(copy: Path) -> None:
    result = lint(copy)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("file", "line", "rule"),
    [
        ("core/harness/plan.py", "import imharness.running.device", "The core is a stack"),
        ("core/harness/boards.py", "import imharness_leaderboard.pages", "The core knows no plugin"),
        ("plugins/imharness_iqa/track.py", "import imharness.results.store", "Plugins use imharness.api only"),
        ("plugins/imharness_iqa/track.py", "import imharness_perceptual.track", "Plugins do not import each other"),
        ("leaderboard/imharness_leaderboard/pages.py", "import torch", "The leaderboard renders results"),
        ("core/harness/identity.py", "import torch", "store load no torch"),
    ],
)
def test_a_planted_violation_is_caught(copy: Path, file: str, line: str, rule: str) -> None:
    path = copy / file
    path.write_text(f"{path.read_text()}\n\n{line}\n")
    result = lint(copy)
    assert result.returncode == 1
    broken = [text for text in result.stdout.splitlines() if "BROKEN" in text]
    assert any(rule in text for text in broken), result.stdout
