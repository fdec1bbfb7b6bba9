"""Unpacks a submission's package and its requirements into a folder of their own.

uv unpacks wheels: it requires hashes, builds nothing and runs nothing. A repository is built into a wheel inside the
sandbox.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from imharness.components.assets import cache_folder
from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.results.identity import digest
from imharness_submissions.contents import settle
from imharness_submissions.manifest import Package, read_lock
from imharness_submissions.sandbox.building import built_wheel
from imharness_submissions.sandbox.jail import GuestSpec

BACKENDS = ("hatchling", "setuptools", "flit-core", "poetry-core", "wheel")
"""Build backends that a repository may use; the newest release on the index is taken."""
TIMEOUT_S = 900


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
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        place = Path(work) / "environment"
        if package.repository:
            wheel = _built(package, Path(work), trusted)
        _unpack([*lock, _pin(package, wheel)], place, Path(work))
        _check(place, package)
        settle(place)
        place.rename(target)
    return target


def _local(folder: Path, package: Package) -> Path:
    wheel = (folder / package.file).resolve()
    if not wheel.is_file():
        raise UsageError(f"{wheel} does not exist; build it first: uv build --wheel")
    return wheel


def _pin(package: Package, wheel: Path | None) -> str:
    if wheel is not None:
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if package.sha256 and found != package.sha256:
            raise UsageError(f"{wheel.name} has the sha256 {found[:12]}…, but the manifest says {package.sha256[:12]}…")
        return f"{package.name} @ {wheel.as_uri()} --hash=sha256:{found}"
    if package.address:
        return f"{package.name} @ {package.address} --hash=sha256:{package.sha256}"
    return f"{package.name}=={package.version} --hash=sha256:{package.sha256}"


def uv() -> str:
    """Return the path of uv; raises `Unavailable` without it."""
    found = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if found is None:
        raise Unavailable("submitted packages are unpacked by uv, which is not installed", "pip install uv")
    return found


def call(line: Sequence[str], what: str, folder: Path | None = None) -> str:
    """Run a program without a shell, and return what it printed.

    `what` names the step in messages. Raises `HarnessError` with the program's last lines when it fails, and when it
    takes longer than `TIMEOUT_S`.
    """
    try:
        done = subprocess.run(
            line, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"{what} took longer than {TIMEOUT_S} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise HarnessError(f"{what} failed: {' '.join(' '.join(lines[-6:]).split())[:600]}")
    return done.stdout.decode(errors="replace")


def _unpack(requirements: Sequence[str], place: Path, work: Path) -> None:
    listed = work / "requirements.txt"
    listed.write_text("\n".join(requirements) + "\n")
    line = [uv(), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(place), "--no-deps"]
    call([*line, "--require-hashes", "--no-build", "--requirement", str(listed)], "unpacking the package")


def _check(place: Path, package: Package) -> None:
    found = [d for d in importlib.metadata.distributions(path=[str(place)]) if _same(d.name, package.name)]
    if not found or found[0].version != package.version:
        shown = f"{found[0].name} {found[0].version}" if found else "nothing of that name"
        raise UsageError(f"the manifest says {package.name} {package.version}, the package holds {shown}")
    links = [path for path in place.rglob("*") if path.is_symlink()]
    if links:
        raise UsageError(f"{package.name} holds a link, {links[0].relative_to(place)}; a package is plain files")


def _same(first: str, second: str) -> bool:
    return first.lower().replace("_", "-") == second.lower().replace("_", "-")


def _built(package: Package, work: Path, trusted: bool) -> Path:
    """Return the wheel of a commit. The repository's own build code runs in the sandbox, without a network."""
    source, out, tools = work / "source", work / "wheels", work / "tools"
    out.mkdir()
    git = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=false", "-c", "filter.lfs.smudge="]
    call([*git, "clone", "--quiet", "--no-checkout", package.repository, str(source)], "cloning the repository")
    call([*git, "-C", str(source), "checkout", "--quiet", "--detach", package.commit], "checking the commit out")
    try:
        build = tomllib.loads((source / "pyproject.toml").read_text())["build-system"]
        wanted, backend = [str(r) for r in build["requires"]], str(build["build-backend"])
    except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{package.repository}: pyproject.toml names no build backend: {error}") from None
    unknown = [r for r in wanted if not any(_same(_project(r), name) for name in BACKENDS)]
    if unknown:
        raise UsageError(f"{package.repository} is built by {unknown[0]}; known backends: {', '.join(BACKENDS)}")
    line = [uv(), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(tools), "--no-build"]
    call([*line, *wanted], "getting the build backend")
    if not backend.replace(":", "").replace(".", "").replace("_", "").isalnum():
        raise UsageError(f"{package.repository}: {backend[:80]!r} is not the name of a build backend")
    name, content = built_wheel(GuestSpec(package.name, tools, trusted=trusted), source, backend)
    if not name.endswith(".whl"):
        raise HarnessError(f"{package.repository}: the build left {name[:80]!r}; expected a wheel")
    (out / name).write_bytes(content)
    return out / name


def _project(requirement: str) -> str:
    return requirement.split(";")[0].split("[")[0].rstrip("0123456789.<>=!~, *").strip()


def locked(distribution: importlib.metadata.Distribution) -> str:
    """Return the content of `requirements.txt`: what a package needs and this environment lacks, pinned with hashes."""
    wanted = [r for r in distribution.requires or [] if "extra ==" not in r]
    here = {d.name.lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()}
    further = [r for r in wanted if _project(r).lower().replace("_", "-") not in here]
    if not further:
        return ""
    with tempfile.TemporaryDirectory() as work:
        given, bounds = Path(work) / "in.txt", Path(work) / "constraints.txt"
        given.write_text("\n".join(further) + "\n")
        bounds.write_text("\n".join(f"{name}=={version}" for name, version in sorted(here.items())) + "\n")
        line = [uv(), "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate"]
        line += ["--python", sys.executable, "--constraint", str(bounds), *_left_out(here), str(given)]
        return call(line, "resolving what the package needs")


def _left_out(names: Iterable[str]) -> list[str]:
    return [part for name in sorted(names) for part in ("--no-emit-package", name)]
