"""The package itself is the command."""

import subprocess
import sys


def test_the_package_can_be_run_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "imharness", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("harness, version")
