"""What a stranger's package asks for comes as wheels from the index; nothing of it ever runs on this machine."""

import hashlib
import http.server
import io
import re
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.submissions.conftest import HOSTILE, METADATA, MakeSubmission, wheel_of, zipped

from imharness.errors import HarnessError, UsageError
from imharness_submissions.environment import environment_of
from imharness_submissions.installer import resolved
from imharness_submissions.manifest import Package, read_lock
from imharness_submissions.starting import start_submission

BACKEND = """
import os, pathlib
pathlib.Path({mark!r}).write_text("\\n".join(os.environ))
raise SystemExit("the build backend ran")
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n'
ENTRY = '[[entries]]\nkind = "defense"\nid = "good/median"\n'


class Index(http.server.ThreadingHTTPServer):
    """An index of packages on this machine: `/simple/NAME/` lists the files of a name, `/files/` holds them."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.asked = folder, list[str]()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        requested_file, kind = self.server.folder / Path(self.path).name, "application/octet-stream"
        if self.path.startswith("/simple/"):
            name = self.path.split("/")[2]
            files = [path for path in sorted(self.server.folder.iterdir()) if path.name.startswith(name + "-")]
            hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
            links = [f'<a href="/files/{p.name}#sha256={h}">{p.name}</a>' for p, h in zip(files, hashes, strict=True)]
            content, kind = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode(), "text/html"
        elif requested_file.is_file():
            content = requested_file.read_bytes()
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Return the file that the build backend of `trap` writes wherever it runs."""
    return tmp_path / "it-ran-here"


@pytest.fixture
def index(tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """Serve `trap`, which is source alone, and `helper`, a wheel that asks for `trap` by its address."""
    folder = tmp_path / "files"
    folder.mkdir()
    server = Index(folder)
    with tarfile.open(folder / "trap-1.0.tar.gz", "w:gz") as file:
        for name, text in {
            "pyproject.toml": PROJECT,
            "evil.py": BACKEND.format(mark=str(mark)),
            "setup.py": BACKEND.format(mark=str(mark)),
            "PKG-INFO": METADATA.format("trap"),
        }.items():
            member = tarfile.TarInfo(f"trap-1.0/{name}")
            member.size = len(text.encode())
            file.addfile(member, io.BytesIO(text.encode()))
    (tmp_path / "trap").mkdir()
    (tmp_path / "trap" / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "trap" / "evil.py").write_text(BACKEND.format(mark=str(mark)))
    (tmp_path / "asks.txt").write_text(f"trap @ {server.address}/files/trap-1.0.tar.gz\n")
    direct = f"Requires-Dist: trap @ {server.address}/files/trap-1.0.tar.gz"
    small_wheel(folder, "helper", direct)
    small_wheel(folder, "optional", f'Provides-Extra: more\n{direct} ; extra == "more"')
    small_wheel(folder, "source", "Requires-Dist: trap")
    small_wheel(folder, "plain", "")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{server.address}/simple/")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def small_wheel(folder: Path, name: str, further: str) -> Path:
    path, facts = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    contents = {
        f"{name}_module.py": "",
        f"{facts}/METADATA": METADATA.format(name) + further + "\n",
        f"{facts}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    return zipped(path, contents)


def asking(folder: Path, *requirements: str, elsewhere: str = "") -> Path:
    """Return a stranger's wheel with requirements: in its own metadata, or in a second set of them, `elsewhere`."""
    wheel = wheel_of(HOSTILE / "honest" / "median.py", folder)
    with zipfile.ZipFile(wheel) as file:
        members = {name: file.read(name) for name in file.namelist()}
    wanted = "".join(f"Requires-Dist: {text}\n" for text in requirements)
    metadata = members["median-1.0.dist-info/METADATA"].decode()
    members[elsewhere or "median-1.0.dist-info/METADATA"] = (metadata + wanted).encode()
    with zipfile.ZipFile(wheel, "w") as file:
        for name, content in sorted(members.items()):
            file.writestr(name, content)
    return wheel


DIRECT = {
    "address": "trap @ {address}/files/trap-1.0.tar.gz",
    "without spaces": "trap@{address}/files/trap-1.0.tar.gz",
    "marker": 'trap @ {address}/files/trap-1.0.tar.gz ; python_version > "3"',
    "extra": 'trap @ {address}/files/trap-1.0.tar.gz ; extra == "tests"',
    "extra in other words": "trap @ {address}/files/trap-1.0.tar.gz ; 'tests' in extra or extra=='' ",
    "extras of its own": "trap[more] @ {address}/files/trap-1.0.tar.gz",
    "file": "trap @ file://{folder}/files/trap-1.0.tar.gz",
    "folder": "trap @ file://{folder}/trap",
    "repository": "trap @ git+file://{folder}/trap",
    "address alone": "{address}/files/trap-1.0.tar.gz",
    "path": "{folder}/trap",
    "editable": "-e {folder}/trap",
    "long option": "--editable={folder}/trap",
    "list": "-r {folder}/asks.txt",
    "links": "--find-links {address}/files/",
    "index": "--index-url {address}/simple/",
    "option after a name": "plain --config-settings=a=b",
    "deep marker": "plain ; " + "(" * 5000 + "python_version>'3'" + ")" * 5000,
}


@pytest.mark.parametrize("name", DIRECT)
def test_what_has_no_name_in_the_index_is_refused_before_anything_is_fetched(
    name: str, tmp_path: Path, index: Index, mark: Path
) -> None:
    wheel = asking(tmp_path, DIRECT[name].format(address=index.address, folder=tmp_path))
    with pytest.raises(UsageError, match=r"asks for .*, which is not a name with versions") as caught:
        start_submission("median", wheel, tmp_path / "submissions", trusted=False)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
    assert not mark.exists(), f"a build backend ran here, and saw {mark.read_text().split()}"
    assert index.asked == []
    assert not list((tmp_path / "cache").rglob("*.py"))


@pytest.mark.parametrize(
    "metadata_path", ["a-1.0.dist-info/PKG-INFO", "A-1.0.DIST-INFO/METADATA", "a-1.0.dist-info/metadata"]
)
def test_requirements_are_those_of_the_metadata_that_were_checked(
    metadata_path: str, tmp_path: Path, index: Index, mark: Path
) -> None:
    """Python finds further sets of metadata under these names."""
    wheel = asking(tmp_path, f"trap @ {index.address}/files/trap-1.0.tar.gz", elsewhere=metadata_path)
    with pytest.raises(UsageError, match=r"METADATA|dist-info"):
        start_submission("median", wheel, tmp_path / "submissions", trusted=False)
    assert not mark.exists()
    assert index.asked == []


@pytest.mark.parametrize("requirement", ["trap", "source", "helper", "optional[more]"])
def test_what_is_needed_further_is_a_wheel_of_the_index_too(
    requirement: str, tmp_path: Path, index: Index, mark: Path
) -> None:
    """Source of the index; source that a wheel of the index needs; an address that it names, plainly or in an extra."""
    wheel = asking(tmp_path, requirement)
    with pytest.raises(HarnessError, match="resolving what the package needs failed") as caught:
        start_submission("median", wheel, tmp_path / "submissions", trusted=False)
    assert str(caught.value).isprintable()
    assert not mark.exists(), f"a build backend ran here, and saw {mark.read_text().split()}"
    assert not (tmp_path / "submissions" / "median").exists()


def test_a_wheel_of_the_index_is_locked_and_unpacked(tmp_path: Path, index: Index, described_once: None) -> None:
    folder = start_submission("median", asking(tmp_path, "plain>=1"), tmp_path / "submissions", trusted=False)
    (line,) = read_lock(folder)
    digest = hashlib.sha256((index.folder / "plain-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    assert line == f"plain==1.0 --hash=sha256:{digest}"


def test_an_extra_that_nobody_asked_for_is_not_resolved(tmp_path: Path, index: Index, described_once: None) -> None:
    wheel = asking(tmp_path, 'trap ; extra == "tests"', "trap ; extra=='more' and python_version > '3'")
    folder = start_submission("median", wheel, tmp_path / "submissions", trusted=False)
    assert read_lock(folder) == []


LOCKED: dict[str, Callable[[str, str], str]] = {
    "address": lambda address, digest: f"trap @ {address}/files/trap-1.0.tar.gz --hash=sha256:{digest}",
    "version that is an address": lambda address, digest: f"trap==1.0@{address} --hash=sha256:{digest}",
    "option in a marker": lambda _, digest: f"trap==1.0 ; python_version > '3' --find-links=x --hash=sha256:{digest}",
    "any version": lambda _, digest: f"trap==1.* --hash=sha256:{digest}",
    "two versions": lambda _, digest: f"trap==1.0,>0 --hash=sha256:{digest}",
    "exact text": lambda _, digest: f"trap===1.0 --hash=sha256:{digest}",
}


@pytest.mark.parametrize("name", LOCKED)
def test_a_line_of_a_lock_is_one_version_of_a_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(LOCKED[name]("http://127.0.0.1:1", "a" * 64) + "\n")
    with pytest.raises(UsageError, match=r"is not pinned as|not a name with versions"):
        read_lock(tmp_path)


@pytest.mark.parametrize("name", ["trap", "helper"])
def test_a_locked_package_is_a_wheel_without_addresses(
    name: str, submission: MakeSubmission, index: Index, mark: Path
) -> None:
    folder = submission("honest/median", ENTRY)
    (file,) = index.folder.glob(f"{name}-1.0*")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "requirements.txt").write_text(f"{name}==1.0 --hash=sha256:{digest}\n")
    message = "unpacking the package failed" if name == "trap" else "asks for .*, which is not a name with versions"
    with pytest.raises(HarnessError, match=message):
        environment_of(folder, pinned(folder))
    assert not mark.exists()
    assert index.asked[-1] != "/files/trap-1.0.tar.gz"


def pinned(folder: Path) -> Package:
    (digest,) = re.findall(r'sha256 = "(\w{64})"', (folder / "submission.toml").read_text())
    (file,) = re.findall(r'file = "(.+)"', (folder / "submission.toml").read_text())
    return Package(name="median", version="1.0", sha256=digest, file=file)


def test_a_package_is_a_file_that_is_named_as_a_wheel(tmp_path: Path, index: Index, mark: Path) -> None:
    """uv decides by the name of a file what to do with it: it would build an archive of sources."""
    wheel = asking(tmp_path)
    for name in ("median-1.0.tar.gz", "median-1.0.zip", "median"):
        wheel = wheel.rename(tmp_path / name)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        with pytest.raises(UsageError, match="is not the name of a wheel"):
            environment_of(tmp_path, Package(name="median", version="1.0", sha256=digest, file=name))


def test_settings_of_the_installer_in_the_folder_are_not_read(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch, described_once: None
) -> None:
    """A pull request may bring files for uv and git, and the commands may be started among them."""
    monkeypatch.chdir(tmp_path)
    evil = f'index-url = "{index.address}/evil/"\nfind-links = ["{index.address}/evil-links/"]\n'
    (tmp_path / "uv.toml").write_text(f"{evil}\n[pip]\n{evil}no-build = false\nonly-binary = []\n")
    (tmp_path / "uv.lock").write_text("x")
    (tmp_path / ".python-version").write_text("2.7")
    (tmp_path / "submissions").mkdir()
    folder = start_submission("median", asking(tmp_path, "plain"), tmp_path / "submissions", trusted=False)
    assert len(read_lock(folder)) == 1
    assert not any("evil" in path for path in index.asked)


def test_the_installer_gets_an_environment_of_its_own(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test's installer prints its environment as the lock."""
    installer = tmp_path / "uv"
    installer.write_text("#!/bin/sh\n/usr/bin/env | /usr/bin/tr '\\n' ' '\n")
    installer.chmod(0o755)
    monkeypatch.setattr("imharness_submissions.installer.uv", lambda: str(installer))
    for name in ("SECRET_TOKEN", "UV_FIND_LINKS", "UV_INDEX", "UV_COMPILE_BYTECODE", "PYTHONPATH", "UV_CONFIG_FILE"):
        monkeypatch.setenv(name, "the-maintainers")
    monkeypatch.setenv("https_proxy", "http://proxy.example")
    output = resolved(["plain"], {})
    assert "the-maintainers" not in output
    assert "https_proxy=http://proxy.example" in output
    assert index.address in output
    assert f"HOME={Path.home()}" not in output.split()
