"""Submitted packages for tests: a module as an installer would lay it out, and a guest that runs it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import Unavailable
from harness.sandbox.host import Guest
from harness.sandbox.jail import GuestSpec, Limits, require_sandbox
from harness.sandbox.proxies import Sandboxed, offer_of

HERE = Path(__file__).parent
QUICK = Limits(answer_s=20, memory_mib=1500, folder_mib=32)
Opened = Callable[..., tuple[Guest, Any]]


def laid_out(module: Path, folder: Path) -> Path:
    """Return a folder with the module as a distribution of its name."""
    name = module.stem.replace("_", "-")
    shutil.copy(module, folder)
    facts = folder / f"{module.stem}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\nAuthor: A stranger\n")
    (facts / "entry_points.txt").write_text(f"[harness]\n{name} = {module.stem}\n")
    return folder


@pytest.fixture(scope="session")
def sandbox() -> None:
    """Skip where bubblewrap is not, or may not, be used."""
    try:
        require_sandbox()
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def opened(sandbox: None, tmp_path: Path) -> Iterator[Opened]:
    """Return a function: path of a module -> (guest, its first component)."""
    guests: list[Guest] = []

    def start(module: str, limits: Limits = QUICK, **changes: Any) -> tuple[Guest, Sandboxed]:
        folder = tmp_path / module.replace("/", "-")
        folder.mkdir()
        laid_out(HERE / f"{module}.py", folder)
        spec = GuestSpec(Path(module).name.replace("_", "-"), folder, limits=limits)
        guests.append(Guest(replace(spec, **changes)))
        found = offer_of(guests[-1]).entries(guests[-1])[0].component
        assert isinstance(found, Sandboxed)
        return guests[-1], found

    yield start
    for guest in guests:
        guest.kill()
