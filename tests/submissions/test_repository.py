"""A package that is pinned by repository and commit: its build code runs in the sandbox, too."""

import shutil
import subprocess
from pathlib import Path

import pytest

from imharness.errors import HarnessError, UsageError
from imharness.testing.scaffold import write_package
from imharness_submissions import installer
from imharness_submissions.environment import environment_of
from imharness_submissions.manifest import Package

ADDRESS = "https://code.example/stranger/soft"
HOOK = """
import ctypes, os, socket
from pathlib import Path
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

def write_outside():
    Path({mark!r}).write_text("it ran here")

def open_socket():
    socket.socket(socket.AF_INET)

def make_namespaces():
    if ctypes.CDLL(None).unshare(0x10000000):
        raise OSError

def fill_the_disk():
    for number in range(40):
        Path("big-%d" % number).write_bytes(bytes(15 << 20))

class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        found = ["it ran"]
        for work in (write_outside, open_socket, make_namespaces, fill_the_disk):
            try:
                work()
                found.append("could " + work.__name__)
            except OSError:
                pass
        for number in range(40):
            Path("big-%d" % number).unlink(missing_ok=True)
        for place in Path("/proc").glob("[0-9]*/environ"):
            try:
                found.append(place.read_text().replace("\\0", " "))
            except OSError:
                pass
        text = "".join("# " + line + chr(10) for line in found)
        source = Path(self.root, "stranger_soft.py")
        source.write_text(source.read_text() + text)
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
    here = (f"url.file://{folder}.insteadOf={ADDRESS}", "protocol.file.allow=always")
    monkeypatch.setattr(installer, "_GIT", (*installer._GIT, *here))
    for name, value in {"NAME": "A stranger", "EMAIL": "a@b.example"}.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    for line in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "A defense"]):
        subprocess.run(["git", "-C", str(folder), *line], check=True)
    head = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return folder, head.stdout.strip()


def pinned(commit: str) -> Package:
    return Package(name="stranger-soft", version="0.1.0", repository=ADDRESS, commit=commit)


def test_build_code_reads_and_reaches_nothing(
    repository: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook writes what it could do, and every environment that it could read, into the wheel."""
    monkeypatch.setenv("SECRET_TOKEN", "the maintainer's")
    folder = environment_of(tmp_path, pinned(repository[1]))
    text = (folder / "stranger_soft.py").read_text()
    assert "# it ran" in text
    assert "could" not in text.partition("# it ran")[2], text
    assert not any("the maintainer's" in path.read_text() for path in folder.rglob("*") if path.is_file())
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
