"""Wheels that harm whoever unpacks or shows them are refused before any of their files is written."""

import hashlib
import os
import stat
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
from tests.submissions.conftest import HOSTILE, METADATA, wheel_of

from imharness.errors import UsageError
from imharness.reading import wheels
from imharness.reading.wheels import RATIO, check_wheel
from imharness_submissions import environment, installer
from imharness_submissions.environment import environment_of, is_backend
from imharness_submissions.manifest import Package


def packed(folder: Path, *further: tuple[str | zipfile.ZipInfo, bytes], metadata: bytes = b"") -> Path:
    """Return a wheel with further files in it, or with other metadata."""
    wheel = folder / "median-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel_of(HOSTILE / "honest" / "median.py", folder)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    if metadata:
        members["median-1.0.dist-info/METADATA"] = metadata
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in [*members.items(), *further]:
            file.writestr(name, content)
    return wheel


def unpacked(wheel: Path) -> Path:
    """Unpack a wheel as a submission's package is."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return environment_of(wheel.parent, Package(name="median", version="1.0", sha256=digest, file=wheel.name))


def link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("median_data")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


FACTS = METADATA.format("median")
REFUSED: dict[str, tuple[list[tuple[str | zipfile.ZipInfo, bytes]], bytes, str]] = {
    "bomb": ([("bomb.bin", bytes(150 << 20))], b"", "would unpack to"),
    "many files": ([(f"m/{i}.txt", b"") for i in range(10_050)], b"", "at most 10000 are unpacked"),
    "link": ([(link(), b"/etc/passwd")], b"", "not a plain file"),
    "outside": ([("../outside.py", b"")], b"", "with the name"),
    "absolute": ([("/outside.py", b"")], b"", "with the name"),
    "escape in a name": ([("a\x1b[2J.py", b"")], b"", "with the name"),
    "line separator in a name": ([("a\u2028.py", b"")], b"", "with the name"),
    "twice in other letters": ([("MEDIAN.py", b"")], b"", "twice"),
    "metadata not UTF-8": ([], FACTS.encode() + b"Summary: \xff\n", "METADATA is not UTF-8"),
    "escape in the author": ([], FACTS.replace("A stranger", "A \x1b[2Jstranger").encode(), "not one line of text"),
    "separator in the author": ([], FACTS.replace("A stranger", "A \u2028stranger").encode(), "not one line of text"),
    "direction in the licence": ([], (FACTS + "License: \u202etim\n").encode(), "not one line of text"),
    "no name": ([], b"Metadata-Version: 2.1\nVersion: 1.0\n", "lacks the name or the version"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_wheel_is_refused_before_it_is_unpacked(name: str, tmp_path: Path) -> None:
    further, metadata, message = REFUSED[name]
    with pytest.raises(UsageError, match=message) as caught:
        unpacked(packed(tmp_path, *further, metadata=metadata))
    assert str(caught.value).isprintable()
    assert not list((tmp_path / "cache").rglob("*.py"))


def test_an_honest_wheel_is_unpacked(tmp_path: Path) -> None:
    assert (unpacked(packed(tmp_path)) / "median.py").is_file()


def test_what_hardly_packs_may_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel may unpack to `RATIO` times its size, or to `FREE` bytes if that is more."""
    monkeypatch.setattr(wheels, "FREE", 1000)
    wheel = packed(tmp_path, ("weights.bin", bytes(range(256)) * 100))
    check_wheel(wheel)
    wheel = packed(tmp_path, ("zeros.bin", bytes(2 * RATIO * wheel.stat().st_size)))
    with pytest.raises(UsageError, match="would unpack to"):
        check_wheel(wheel)


def test_a_wheel_is_a_plain_file(tmp_path: Path) -> None:
    """What a build leaves behind may be anything."""
    path = tmp_path / "median-1.0-py3-none-any.whl"
    os.mkfifo(path)
    with pytest.raises(UsageError, match="not a plain file"):
        check_wheel(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="cannot be read"):
        check_wheel(path)
    path.unlink()
    with path.open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(UsageError, match="at most"):
        check_wheel(path)


def test_a_wheel_from_an_address_is_checked_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "https://code.example/median-1.0-py3-none-any.whl"
    wheel = packed(tmp_path, ("bomb.bin", bytes(150 << 20)))
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: wheel.open("rb"))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with pytest.raises(UsageError, match="would unpack to"):
        environment_of(tmp_path, Package(name="median", version="1.0", sha256=digest, address=address))
    packed(tmp_path)
    with pytest.raises(UsageError, match="has the sha256"):
        environment_of(tmp_path, Package(name="median", version="1.0", sha256=digest, address=address))
    monkeypatch.setattr(environment, "BYTES", 100)
    with pytest.raises(UsageError, match="more than 100 bytes"):
        environment_of(tmp_path, Package(name="median", version="1.0", sha256=digest, address=address))


def test_an_installer_that_writes_too_much_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an index sends cannot be seen before: its bytes are counted while it is written."""
    monkeypatch.setattr(installer, "UNPACKED", 1 << 20)
    code = "import time; open('bomb', 'wb').write(bytes(4 << 20)); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) as process:
        try:
            with pytest.raises(UsageError, match="have more than 1048576 bytes"):
                installer._watch(process, tmp_path)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("requirement", "taken"),
    [
        ("hatchling", True),
        ("setuptools>=61", True),
        ("setuptools >= 61, < 80", True),
        ("wheel==0.43.0", True),
        ("setuptools[core]>=61 ; python_version < '3.13'", True),
        ("setuptools[x] @ http://evil.example/x.whl", False),
        ("setuptools@http://evil.example/x.whl", False),
        ("setuptools ; x @ http://evil.example", False),
        ("--index-url=http://evil.example", False),
        ("setuptools --index-url=http://evil.example", False),
        ("-rsetuptools", False),
        ("./setuptools", False),
        ("file:///tmp/setuptools", False),
        ("setuptools\nevil", False),
        ("evil", False),
    ],
)
def test_build_requirements_come_from_the_index(requirement: str, taken: bool) -> None:
    assert is_backend(requirement) is taken
