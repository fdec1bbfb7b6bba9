"""Unpacks a submission's package and its requirements into a folder of their own.

uv unpacks wheels: it requires hashes, builds nothing and runs nothing. A repository is built into a wheel inside the
sandbox.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

from imharness.contracts.assets import cache_folder
from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.reading.opening import MIB, read_bytes
from imharness.reading.structured import read_toml
from imharness.reading.text import plain
from imharness.reading.wheels import BYTES, UNPACKED, WHEEL_NAME, check_unpacked, check_wheel
from imharness.results.disk import UNFINISHED, remove_remains
from imharness.results.identity import digest
from imharness_submissions.contents import settle
from imharness_submissions.manifest import Package, read_lock
from imharness_submissions.sandbox.building import built_wheel
from imharness_submissions.sandbox.jail import GuestSpec

BACKENDS = ("hatchling", "setuptools", "flit-core", "poetry-core", "wheel")
"""Build backends that a repository may use; the newest release on the index is taken."""
TIMEOUT_S = 900
_PLAIN = re.compile(
    r"[A-Za-z0-9._-]+ *(\[[A-Za-z0-9._, -]*\])? *((==|>=|<=|~=|!=|<|>) *[A-Za-z0-9.*+!]+ *,? *)*(;[^@]*)?"
)
"""A requirement without an address, `NAME @ https://...`, and without an option of the installer."""


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
    with tempfile.TemporaryDirectory(dir=unfinished) as work:
        place = Path(work) / "environment"
        if package.repository:
            wheel = _built(package, Path(work), trusted)
        if wheel is None and package.address:
            wheel = _fetched(package, Path(work))
        if wheel is not None:
            check_wheel(wheel)
        _unpack([*lock, _pin(package, wheel)], place, Path(work))
        check_unpacked(place)
        _check(place, package)
        settle(place)
        try:
            place.rename(target)
        except OSError:
            if not target.is_dir():  # another process was faster
                raise
    return target


def _local(folder: Path, package: Package) -> Path:
    wheel = (folder / package.file).resolve()
    if not wheel.exists():
        raise UsageError(f"{wheel} does not exist; build it first: uv build --wheel")
    return wheel


def _fetched(package: Package, work: Path) -> Path:
    """Return the wheel at an address, once it is known that it fits its hash; at most `BYTES` are taken."""
    name = package.address.rpartition("/")[2]
    if not WHEEL_NAME.match(name):
        raise UsageError(f"{package.address}: {name!r:.80} is not the name of a wheel.")
    place = work / name
    try:
        with urllib.request.urlopen(package.address, timeout=60) as answer:
            content, until = bytearray(), time.monotonic() + TIMEOUT_S
            while len(content) <= BYTES and (part := answer.read1(MIB)):
                content += part
                if time.monotonic() > until:
                    raise HarnessError(f"fetching {package.address} took longer than {TIMEOUT_S} s")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise HarnessError(f"{package.address} cannot be fetched: {plain(str(error)):.200}") from None
    if len(content) > BYTES:
        raise UsageError(f"{package.address} has more than {BYTES} bytes.")
    place.write_bytes(content)
    return place


def _pin(package: Package, wheel: Path | None) -> str:
    if wheel is not None:
        found = hashlib.sha256(read_bytes(wheel, BYTES)).hexdigest()
        if package.sha256 and found != package.sha256:
            raise UsageError(f"{wheel.name} has the sha256 {found[:12]}…, but the manifest says {package.sha256[:12]}…")
        return f"{package.name} @ {wheel.as_uri()} --hash=sha256:{found}"
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
        raise _failed(what, done.stderr)
    return done.stdout.decode(errors="replace")


def _failed(what: str, errors: bytes) -> HarnessError:
    lines = errors.decode(errors="replace").strip().split("\n")
    return HarnessError(f"{what} failed: {plain(' '.join(lines[-6:]))[:600] or 'no reason given'}")


def _unpack(requirements: Sequence[str], place: Path, work: Path) -> None:
    listed = work / "requirements.txt"
    listed.write_text("\n".join(requirements) + "\n")
    line = [uv(), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(place), "--no-deps"]
    line += ["--cache-dir", str(work / "cache"), "--require-hashes", "--no-build", "--requirement", str(listed)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            line, env=_without_bytecode(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            _watch(process, work)
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        if process.returncode:
            raise _failed("unpacking the package", errors.read())


def _without_bytecode() -> dict[str, str]:
    """Return the environment without a person's wish that uv compiles what it unpacks: bytecode is refused."""
    return {name: value for name, value in os.environ.items() if name != "UV_COMPILE_BYTECODE"}


def _watch(process: subprocess.Popen[bytes], work: Path) -> None:
    """Wait for the installer; raises `HarnessError` when it takes long, or writes more than packages may have.

    It unpacks into its cache, which is below `work`, and then into its target: this counts both.
    """
    until = time.monotonic() + TIMEOUT_S
    while process.poll() is None:
        if _bytes_below(work) > 2 * UNPACKED:
            raise UsageError(f"the package and what it needs have more than {UNPACKED} bytes")
        if time.monotonic() > until:
            raise HarnessError(f"unpacking the package took longer than {TIMEOUT_S} s")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.25)


def _bytes_below(folder: Path) -> int:
    """Return how much lies below a folder while others change it."""
    size = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(top, name)).st_size
    return size


def _check(place: Path, package: Package) -> None:
    found = [d for d in importlib.metadata.distributions(path=[str(place)]) if _same(d.name, package.name)]
    if len(found) > 1:
        raise UsageError(f"the package holds {len(found)} sets of metadata of {package.name}; expected one")
    if not found or found[0].version != package.version:
        shown = f"{found[0].name} {found[0].version}" if found else "nothing of that name"
        raise UsageError(f"the manifest says {package.name} {package.version}, the package holds {shown}")


def _same(first: str, second: str) -> bool:
    return first.lower().replace("_", "-") == second.lower().replace("_", "-")


def _built(package: Package, work: Path, trusted: bool) -> Path:
    """Return the wheel of a commit. The repository's own build code runs in the sandbox, without a network."""
    source, out, tools = work / "source", work / "wheels", work / "tools"
    out.mkdir()
    git = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=false", "-c", "filter.lfs.smudge="]
    git += ["-c", "credential.helper=", "-c", "core.askPass=true"]  # no private repository of the maintainer
    call([*git, "clone", "--quiet", "--no-checkout", package.repository, str(source)], "cloning the repository")
    call([*git, "-C", str(source), "checkout", "--quiet", "--detach", package.commit], "checking the commit out")
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
    line = [uv(), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(tools), "--no-build"]
    call([*line, *wanted], "getting the build backend")
    if not backend.replace(":", "").replace(".", "").replace("_", "").isalnum():
        raise UsageError(f"{package.repository}: {backend[:80]!r} is not the name of a build backend")
    name, content = built_wheel(GuestSpec(package.name, tools, trusted=trusted), source, backend)
    if not name.endswith(".whl"):
        raise HarnessError(f"{package.repository}: the build left {name[:80]!r}; expected a wheel")
    (out / name).write_bytes(content)
    return out / name


def is_backend(requirement: str) -> bool:
    """Say whether a requirement names one of `BACKENDS` by name and versions alone, and so comes from the index."""
    named = any(_same(_project(requirement), name) for name in BACKENDS)
    return named and len(requirement) < 200 and _PLAIN.fullmatch(requirement) is not None


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
