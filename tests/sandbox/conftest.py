"""Submitted packages for tests: a module as an installer would lay it out, and a guest that runs it."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from imharness.errors import Unavailable
from imharness_submissions.opening import data_packages
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec, Limits, require_sandbox
from imharness_submissions.sandbox.proxies import PackageDescription, Sandboxed, offer_of

HERE = Path(__file__).parent
QUICK = Limits(answer_s=3, folder_mib=32)
PATIENT = replace(QUICK, answer_s=90, reports=500)
"""For packages that are stopped by another rule than the deadline, also where the machine is slow."""
LATE = ("never_returns", "drips")
"""Packages that are stopped by the deadline; they get the short one of `QUICK`."""
FILLING = ("fills_memory", "fills_shared_memory", "hides_shared_memory", "hoards_in_tables")
"""Packages that fill memory; they get a limit of 1000 MiB, so that filling it ends soon.

Other packages keep the usual limit. Near a limit, shared pages are divided among processes to count them exactly, which
takes 13 ms for each process in each call.
"""
Opened = Callable[..., tuple[Guest, Any]]
"""The type of the fixture `opened`."""


def laid_out(modules: Iterable[Path], folder: Path) -> Path:
    """Copy modules into a folder, and add the metadata of one distribution, "strangers"; return the folder."""
    facts = folder / "strangers-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.4\nName: strangers\nVersion: 1.0\nAuthor: A stranger\n")
    points = []
    for module in modules:
        shutil.copy(module, folder)
        points.append(f"{module.stem} = {module.stem}")
    (facts / "entry_points.txt").write_text("[imharness]\n" + "\n".join(points) + "\n")
    return folder


@pytest.fixture(scope="session")
def sandbox() -> None:
    """Skip where bubblewrap is not, or may not, be used."""
    try:
        require_sandbox()
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def crowd(sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """A guest with all hostile and honest modules but two as one package; each call gets its own session anyway."""
    modules = sorted([*(HERE / "hostile").glob("*.py"), *(HERE / "honest").glob("*.py")])
    alone = ("lies_about_itself", "names_a_field")
    folder = laid_out((m for m in modules if m.stem not in alone), tmp_path_factory.mktemp("crowd"))
    guest = Guest(GuestSpec("strangers", folder, masked=tuple(data_packages()), limits=PATIENT))
    yield guest
    guest.kill()


@pytest.fixture(scope="session")
def described(crowd: Guest) -> PackageDescription:
    """The components that `crowd` registers: one request for all tests, as a run makes one for a package."""
    return offer_of(crowd)


@pytest.fixture
def opened(crowd: Guest, described: PackageDescription) -> Iterator[Opened]:
    """Return a function: "hostile/NAME" or "honest/NAME" -> (guest with limits for that module, its component)."""

    def start(module: str) -> tuple[Guest, Sandboxed]:
        owner, _, stem = module.partition("/")
        wanted = {"honest": "good", "hostile": "evil"}[owner] + "/" + stem.replace("_", "-")
        component = next(e.component for e in described.entries(crowd) if e.component.info.id == wanted)
        assert isinstance(component, Sandboxed)
        crowd.attempts.clear()
        limits = QUICK if stem in LATE else PATIENT
        if stem in FILLING:
            crowd.kill()  # one that runs already has other limits
            limits = replace(limits, memory_mib=1000)
        crowd.spec = replace(crowd.spec, limits=limits)
        return crowd, component

    yield start
    crowd.end_all()
