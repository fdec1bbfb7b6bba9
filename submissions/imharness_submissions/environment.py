"""Unpacks a submission's package and its requirements into a folder of their own.

Both are wheels, with hashes: nothing is built and nothing of them runs. A repository is built into a wheel inside the
sandbox.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib.metadata
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from imharness.contracts.assets import cache_folder
from imharness.errors import HarnessError, UsageError
from imharness.reading.opening import MIB, read_bytes
from imharness.reading.requirements import requirement_of
from imharness.reading.structured import read_toml
from imharness.reading.text import plain
from imharness.reading.wheels import BYTES, WHEEL_NAME, check_unpacked, check_wheel
from imharness.results.disk import UNFINISHED, remove_remains
from imharness.results.identity import digest
from imharness_submissions.contents import settle
from imharness_submissions.installer import TIMEOUT_S, checked_out, resolved, unpack
from imharness_submissions.manifest import Package, read_lock
from imharness_submissions.sandbox.building import built_wheel
from imharness_submissions.sandbox.jail import GuestSpec

BACKENDS = ("hatchling", "setuptools", "flit-core", "poetry-core", "wheel")
"""Build backends that a repository may use; of the releases that it allows, the newest on the index is taken."""


def environment_of(folder: Path, package: Package, *, trusted: bool = False) -> Path:
    """Return the folder with a submission's package and requirements; it is made once for each content.

    Raises `UsageError` when package and manifest disagree, `HarnessError` when the package cannot be fetched or built.
    """
    lock = read_lock(folder)
    wheel = _local(folder, package) if package.file else None
    name = digest([package.model_dump(), lock, sys.version_info[:2], "settled"])[:24]
    target = cache_folder() / "submissions" / name
    if target.is_dir():
        return target
    remove_remains(target.parent)
    unfinished = target.parent / UNFINISHED
    unfinished.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=unfinished) as workspace:
        environment = Path(workspace) / "environment"
        if package.repository:
            wheel = _built(package, Path(workspace), trusted)
        if wheel is None and package.address:
            wheel = _fetched(package, Path(workspace))
        if wheel is not None:
            check_wheel(wheel)
        unpack([*lock, _pin(package, wheel)], environment, Path(workspace), "unpacking the package", pinned=True)
        check_unpacked(environment)
        _check(environment, package)
        settle(environment)
        try:
            environment.rename(target)
        except OSError:
            if not target.is_dir():  # another process was faster
                raise
    return target


def _local(folder: Path, package: Package) -> Path:
    wheel = (folder / package.file).resolve()
    _check_name(wheel.name, package.file)
    if not wheel.exists():
        raise UsageError(f"{wheel} does not exist; build it first: uv build --wheel")
    return wheel


def _check_name(name: str, where: str) -> None:
    """Raise `UsageError` unless a file has the name of a wheel: by its name an installer takes it for one."""
    if not WHEEL_NAME.match(name):
        raise UsageError(f"{where}: {name!r:.80} is not the name of a wheel.")


def _fetched(package: Package, workspace: Path) -> Path:
    """Return the wheel at an address, once it is known that it fits its hash; at most `BYTES` are taken."""
    name = package.address.rpartition("/")[2]
    _check_name(name, package.address)
    path = workspace / name
    try:
        with urllib.request.urlopen(package.address, timeout=60) as answer:
            content, until = bytearray(), time.monotonic() + TIMEOUT_S
            while len(content) <= BYTES and (chunk := answer.read1(MIB)):
                content += chunk
                if time.monotonic() > until:
                    raise HarnessError(f"fetching {package.address} took longer than {TIMEOUT_S} s")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise HarnessError(f"{package.address} cannot be fetched: {plain(str(error)):.200}") from None
    if len(content) > BYTES:
        raise UsageError(f"{package.address} has more than {BYTES} bytes.")
    path.write_bytes(content)
    return path


def _pin(package: Package, wheel: Path | None) -> str:
    if wheel is not None:
        sha256 = hashlib.sha256(read_bytes(wheel, BYTES)).hexdigest()
        if package.sha256 and sha256 != package.sha256:
            raise UsageError(
                f"{wheel.name} has the sha256 {sha256[:12]}…, but the manifest says {package.sha256[:12]}…"
            )
        return f"{package.name} @ {wheel.as_uri()} --hash=sha256:{sha256}"
    return f"{package.name}=={package.version} --hash=sha256:{package.sha256}"


def _check(environment: Path, package: Package) -> None:
    distributions = [
        d for d in importlib.metadata.distributions(path=[str(environment)]) if _same(d.name, package.name)
    ]
    if len(distributions) > 1:
        raise UsageError(f"the package holds {len(distributions)} sets of metadata of {package.name}; expected one")
    if not distributions or distributions[0].version != package.version:
        description = f"{distributions[0].name} {distributions[0].version}" if distributions else "nothing of that name"
        raise UsageError(f"the manifest says {package.name} {package.version}, the package holds {description}")


def _same(first: str, second: str) -> bool:
    return canonicalize_name(first) == canonicalize_name(second)


def _built(package: Package, workspace: Path, trusted: bool) -> Path:
    """Return the wheel of a commit. The repository's own build code runs in the sandbox, without a network."""
    source, out, tools = workspace / "source", workspace / "wheels", workspace / "tools"
    out.mkdir()
    checked_out(package.repository, package.commit, source)
    try:
        build = read_toml(source / "pyproject.toml")["build-system"]
        wanted, backend = [str(r) for r in build["requires"]], str(build["build-backend"])
    except (UsageError, KeyError, TypeError) as error:
        raise UsageError(f"{package.repository}: pyproject.toml names no build backend: {error}") from None
    unknown = [r for r in wanted if not is_backend(r)]
    if unknown:
        raise UsageError(
            f"{package.repository} is built by {plain(unknown[0]):.100}; known backends: {', '.join(BACKENDS)}"
        )
    listed = [str(requirement_of(r, "the build")) for r in wanted]
    unpack(listed, tools, workspace, "getting the build backend", pinned=False)
    if not backend.replace(":", "").replace(".", "").replace("_", "").isalnum():
        raise UsageError(f"{package.repository}: {backend[:80]!r} is not the name of a build backend")
    name, content = built_wheel(GuestSpec(package.name, tools, trusted=trusted), source, backend)
    if not name.endswith(".whl"):
        raise HarnessError(f"{package.repository}: the build left {name[:80]!r}; expected a wheel")
    (out / name).write_bytes(content)
    return out / name


def is_backend(requirement: str) -> bool:
    """Say whether a requirement names one of `BACKENDS` by name and versions alone, and so comes from the index."""
    try:
        return canonicalize_name(requirement_of(requirement, "the build").name) in BACKENDS
    except UsageError:
        return False


def locked(requirements: Iterable[Requirement]) -> str:
    """Return the content of `requirements.txt`: what a package needs and this environment lacks, pinned with hashes.

    Of each package a wheel is taken; raises `HarnessError` where there is none.
    """
    here: dict[str, str] = {canonicalize_name(d.name): d.version for d in importlib.metadata.distributions()}
    further = [str(wanted) for wanted in requirements if canonicalize_name(wanted.name) not in here]
    return resolved(further, here) if further else ""
