"""A package that is pinned by repository and commit: its build code runs in the sandbox, too."""

import shutil
import subprocess
from pathlib import Path

import pytest

from imharness.errors import HarnessError, UsageError
from imharness_conformance.scaffold import write_package
from imharness_submissions.environment import environment_of
from imharness_submissions.manifest import Package

ADDRESS = "https://code.example/stranger/soft"
HOOK = """
import socket
from pathlib import Path
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        try:
            Path({mark!r}).write_text("it ran here")
        except OSError:
            pass
        try:
            socket.socket(socket.AF_INET).connect(("127.0.0.1", 9))
        except OSError as error:
            print(error)
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """Return a repository with a generated package that git finds at ADDRESS, and its commit."""
    if shutil.which("git") is None:
        pytest.skip("git is not on this machine")
    folder = write_package("defense", "stranger/soft", tmp_path, "A stranger")
    project = folder / "pyproject.toml"
    project.write_text(project.read_text() + '\n[tool.hatch.build.hooks.custom]\npath = "hook.py"\n')
    (folder / "hook.py").write_text(HOOK.format(mark=str(tmp_path / "mark")))
    config = tmp_path / "gitconfig"
    config.write_text(
        f'[url "file://{folder}"]\n\tinsteadOf = {ADDRESS}\n[protocol "file"]\n\tallow = always\n'
        "[user]\n\tname = A stranger\n\temail = a@b.example\n[init]\n\tdefaultBranch = main\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    for line in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "A defense"]):
        subprocess.run(["git", "-C", str(folder), *line], check=True)
    head = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return folder, head.stdout.strip()


def pinned(commit: str) -> Package:
    return Package(name="stranger-soft", version="0.1.0", repository=ADDRESS, commit=commit)


def test_a_commit_is_built_in_the_sandbox_and_unpacked(repository: tuple[Path, str], tmp_path: Path) -> None:
    place = environment_of(tmp_path, pinned(repository[1]))
    assert (place / "stranger_soft.py").is_file()
    assert not (tmp_path / "mark").exists(), "the build hook wrote outside"


def test_a_commit_that_is_not_there_is_named(repository: tuple[Path, str], tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="checking the commit out failed"):
        environment_of(tmp_path, pinned("0" * 40))


def test_an_unknown_build_backend_is_refused(repository: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = repository
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace('requires = ["hatchling>=1.26"]', 'requires = ["evil-backend"]'))
    subprocess.run(["git", "-C", str(folder), "commit", "-qam", "Another backend"], check=True)
    head = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    with pytest.raises(UsageError, match="is built by evil-backend"):
        environment_of(tmp_path, pinned(head.stdout.strip()))
