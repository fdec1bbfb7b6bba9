"""Wheels of strangers, and a profile small enough to run them in a test."""

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from imharness.errors import Unavailable
from imharness.results.identity import digest
from imharness_submissions import opening, running, starting
from imharness_submissions.installer import uv
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import require_sandbox
from imharness_submissions.sandbox.proxies import PackageDescription, offer_of

HOSTILE = Path(__file__).parents[1] / "sandbox"
PROFILE = """
name = "tiny"
description = "One metric, one attack, a few photographs."
[tracks."harness/iqa"]
select.dataset = ["harness/severity-ladder[severities=[2,4],size=48]"]
select.metric = ["embedded-cnn"]
select.attack = ["ifgsm", "square"]
select.defense = ["none"]
options = { strengths = ["medium"], samples = 2, shown = [] }
parameters."harness/square" = { queries = 20 }
"""
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: 1.0\nAuthor: A stranger\n"
MakeSubmission = Callable[..., Path]


@pytest.fixture(scope="session")
def tools() -> None:
    """Skip where bubblewrap or uv is missing."""
    try:
        require_sandbox()
        uv()
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def own_cache(tools: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep unpacked packages out of the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@contextmanager
def unexamined() -> Iterator[None]:
    """Let runs compute tasks and tables alone, without the conformance suite and the attacks on entries.

    For tests that are about something else: what these find of packages is tested in `test_honest`, `test_run` and
    `test_tracks`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "conformance", lambda run, advance: (0, []))
        patch.setattr(running, "audit_gradients", lambda run, advance: [])
        yield


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Return the file of a tiny profile."""
    path = tmp_path / "tiny.toml"
    path.write_text(PROFILE)
    return path


def zipped(wheel: Path, contents: Mapping[str, str]) -> Path:
    """Write a wheel with these files, name -> text, and a record of them; return it."""
    facts = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        for inside, text in contents.items():
            file.writestr(inside, text)
        file.writestr(f"{facts}/RECORD", "".join(f"{inside},,\n" for inside in contents))
    return wheel


def wheel_of(module: Path, folder: Path, *further: Path) -> Path:
    """Pack a module of tests/sandbox, and further ones, as a wheel that has the name of the first."""
    name, modules = module.stem, (module, *further)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    facts = f"{name}-1.0.dist-info"
    contents = {
        **{module_file.name: module_file.read_text() for module_file in modules},
        f"{facts}/METADATA": METADATA.format(name.replace("_", "-")),
        f"{facts}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{facts}/entry_points.txt": "\n".join(
            ["[imharness]", *(f"{module_file.stem} = {module_file.stem}" for module_file in modules), ""]
        ),
    }
    return zipped(path, contents)


@pytest.fixture
def store(listed: Path, tmp_path: Path) -> Path:
    """Return a copy of the store that the fixture `listed` of a test module makes, so that a test may change it."""
    return Path(shutil.copytree(listed, tmp_path / "store"))


@pytest.fixture
def submission(tmp_path: Path) -> MakeSubmission:
    """Return a function: module of tests/sandbox -> a submission's folder with a wheel of it, and of further ones."""
    return partial(submission_in, tmp_path)


def submission_in(root: Path, module: str, entries: str, *further: str, claims: str = "", sha256: str = "") -> Path:
    """Write a submission of modules of tests/sandbox below a folder, with its wheel; return its own folder."""
    wheel = wheel_of(HOSTILE / f"{module}.py", root, *(HOSTILE / f"{stem}.py" for stem in further))
    name = Path(module).stem.replace("_", "-")
    folder = root / "submissions" / name
    folder.mkdir(parents=True)
    digest = sha256 or hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "submission.toml").write_text(
        f'format = 1\nsummary = "A defense for tests."\nauthors = ["A stranger"]\ncontact = "a@b.example"\n'
        f'licence = "MIT"\nextra_training_data = "none"\n[package]\nname = "{name}"\nversion = "1.0"\n'
        f'sha256 = "{digest}"\nfile = "../../{wheel.name}"\n[hardware]\nmemory_gib = 3\n{entries}\n{claims}\n'
    )
    return folder


@pytest.fixture(scope="module")
def module_folder(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder that tests of a module share; unpacked packages are kept there meanwhile."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="session")
def descriptions() -> dict[str, PackageDescription]:
    """Digest of the files of a package -> what the package registers."""
    return {}


@pytest.fixture
def described_once(descriptions: dict[str, PackageDescription], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask each package once what it registers, in whichever test, and start no other guest for that.

    The file METADATA is left out of the digest, because what a package requires does not change what it registers.
    """

    def offer(guest: Guest) -> PackageDescription:
        files = sorted(path for path in guest.spec.folder.rglob("*") if path.is_file() and path.name != "METADATA")
        content = digest([[str(path.relative_to(guest.spec.folder)), path.read_text()] for path in files])
        if content not in descriptions:
            descriptions[content] = offer_of(guest)
        return descriptions[content]

    for module in (opening, starting):
        monkeypatch.setattr(module, "offer_of", offer)
