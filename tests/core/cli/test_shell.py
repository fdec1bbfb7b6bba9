"""Completion by shells: the words that are offered, without loading torch, and a script for each shell."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from imharness.cli import cli
from imharness.cli.index import index


@pytest.fixture(autouse=True)
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty cache: it has no list of components until a test calls `index`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def completed(*words: str) -> list[str]:
    """Return what a shell offers to complete the last word."""
    return [
        completion.value
        for completion in ShellComplete(cli, {}, "harness", "X").get_completions(list(words[:-1]), words[-1])
    ]


def test_names_of_components_are_completed_by_kind_from_the_kept_list() -> None:
    assert completed("run", "--attack", "ifg") == []  # no list is cached yet, and completion imports nothing
    index()
    assert completed("run", "--attack", "ifg") == ["ifgsm"]
    assert completed("run", "--defense", "jp") == ["jpeg"]
    assert completed("run", "--defense", "harness/jp") == ["harness/jpeg"]
    assert "jpeg" in completed("plugins", "show", "")
    assert "ifgsm" in completed("results", "list", "--component", "i")
    assert completed("score", "psn") == ["psnr"]
    assert completed("iqa", "calibrate", "--attack", "ifg") == ["ifgsm"]
    assert set(completed("run", "--track", "")) >= {"iqa", "membership", "perceptual", "reconstruction"}


def test_commands_options_and_choices_are_completed() -> None:
    assert completed("res") == ["results"]
    assert completed("results", "ex") == ["export"]
    assert completed("run", "--log") == ["--log-to"]
    assert completed("results", "export", "--format", "ty") == ["typst"]


def test_completion_loads_no_torch(tmp_path: Path) -> None:
    index()
    code = (
        "import sys, os; from imharness.cli import main\n"
        "try: main()\n"
        "except SystemExit: print('heavy', sorted({'torch', 'duckdb', 'pyarrow', 'matplotlib'} & set(sys.modules)))"
    )
    environment = {"_HARNESS_COMPLETE": "bash_complete", "COMP_WORDS": "harness run --attack ifg", "COMP_CWORD": "3"}
    variables = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment | variables, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "plain,ifgsm\nheavy []\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_can_read(shell: str, tmp_path: Path, harness_here) -> None:
    ran = harness_here("completion", shell, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert f"_HARNESS_COMPLETE={shell}_complete" in ran.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=ran.stdout, text=True, check=True)
