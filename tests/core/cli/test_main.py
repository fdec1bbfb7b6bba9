"""Tests of `python -m imharness`, and of warnings that the command prints."""

import subprocess
import sys


def test_the_package_can_be_run_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "imharness", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("harness, version")


def test_a_warning_for_users_is_one_line_and_said_once() -> None:
    code = (
        "import warnings, click, imharness.cli as own\n"
        "def work(**_):\n"
        "    for _ in range(2):\n"
        "        warnings.warn('one is left out', UserWarning, stacklevel=1)\n"
        "    warnings.warn('it is old', DeprecationWarning, stacklevel=1)\n"
        "own.cli.main = work\n"
        "own.main()\n"
    )
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stderr.splitlines()[:2]  # newer Pythons show the line of code below
    assert first == "warning: one is left out"
    assert "DeprecationWarning: it is old" in second
