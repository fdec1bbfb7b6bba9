"""What a package's folder may hold, and that its digest covers all of it."""

import os
from pathlib import Path

import pytest

from imharness.errors import UsageError
from imharness_submissions.contents import settle, tree_digest


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return the unpacked folder of an honest package."""
    facts = tmp_path / "soft-1.0.dist-info"
    (tmp_path / "soft" / "weights").mkdir(parents=True)
    facts.mkdir()
    (tmp_path / "soft" / "__init__.py").write_text("WEIGHT = 1\n")
    (facts / "METADATA").write_text("Metadata-Version: 2.4\nName: soft\nVersion: 1.0\n")
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "torch/__init__.py",
        "numpy.py",
        "sitecustomize.py",
        "usercustomize/x.py",
        "imharness/x.py",
        "imharness_submissions/sandbox/guest.py",
        "json.py",
        "ImHarness.py",
        "torch.cpython-311-x86_64.so",
    ],
)
def test_a_module_that_is_already_here_is_refused(package: Path, name: str) -> None:
    (package / name).parent.mkdir(parents=True, exist_ok=True)
    (package / name).write_text("")
    with pytest.raises(UsageError, match="already has"):
        settle(package)


@pytest.mark.parametrize("name", ["soft/__pycache__/__init__.cpython-311.pyc", "soft/other.pyc", "soft/__pycache__/x"])
def test_byte_code_is_refused(package: Path, name: str) -> None:
    """Python would run it in place of the source."""
    (package / name).parent.mkdir(parents=True, exist_ok=True)
    (package / name).write_bytes(b"code")
    with pytest.raises(UsageError, match="byte code"):
        settle(package)


@pytest.mark.parametrize("change", ["content", "hidden", "folder", "mode", "cache"])
def test_whatever_code_could_read_is_in_the_digest(package: Path, change: str) -> None:
    settle(package)
    before = tree_digest(package)
    match change:
        case "content":
            (package / "soft" / "__init__.py").write_text("WEIGHT = 2\n")
        case "hidden":
            (package / "soft" / ".hidden").write_text("2")
        case "folder":
            (package / "soft" / "weights" / "2").mkdir()
        case "mode":
            (package / "soft" / "__init__.py").chmod(0o755)
        case "cache":
            (package / "soft" / "__pycache__").mkdir()
            (package / "soft" / "__pycache__" / "x.pyc").write_text("2")
    assert tree_digest(package) != before


def test_what_an_installer_writes_is_taken_away(package: Path) -> None:
    """It differs from machine to machine, and a package could hide a number in it."""
    settle(package)
    before = tree_digest(package)
    facts = package / "soft-1.0.dist-info"
    for name in ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json"):
        (facts / name).write_text("2")
    os.utime(package / "soft" / "__init__.py", (5, 5))
    settle(package)
    assert tree_digest(package) == before
    assert {path.name for path in facts.iterdir()} == {"METADATA"}
    assert (package / "soft" / "__init__.py").stat().st_mtime == 0
