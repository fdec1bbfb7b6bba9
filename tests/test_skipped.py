"""Skipped tests are counted by reason, in one line a reason, by one process and by several."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_one(number):
    if number < 3:
        pytest.skip("no bubblewrap: apt-get install bubblewrap")

@pytest.mark.skipif(True, reason="no GPU on this machine")
def test_two(): ...

def test_three():
    pytest.skip("no bubblewrap: apt-get install bubblewrap")
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_each_reason_has_one_line_with_its_number(workers: str, tmp_path: Path) -> None:
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text(TESTS, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
        str(ROOT),
        "-p",
        "tests.skipped",
    ]
    ran = subprocess.run(
        [*command, "-n", workers, str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DEBUG_TEMPROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert [line for line in ran.stdout.splitlines() if line.startswith("SKIPPED")] == [
        "SKIPPED [8] no bubblewrap: apt-get install bubblewrap",
        "SKIPPED [2] no GPU on this machine",
    ]
