"""Finds the files of another author's package, and makes the digest that identifies its code in results.

The digest covers

- all files below the import packages that a distribution brings, with their tables and weights;
- each package that this code imports and that lies outside the folders of installed packages, such as a library that
  the author develops beside it;
- the version of each installed library that the metadata require, except for those that the harness requires, too:
  their versions, such as that of torch, are in the records of results.

It does not cover scripts and tests that no code imports, because their author changes them without a change of numbers.
Neither does it cover byte code and hidden files.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from imharness.errors import HarnessError, PluginError
from imharness.results.identity import DISTRIBUTION, digest, version_of

DIGITS = 12
"""How many digits of a digest a version has: two codes have the same ones with a probability of 4e-15."""
INSTALLED = {"site-packages", "dist-packages"}
"""The names of the folders of installed packages."""
_IMPORTS = re.compile(rb"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+(\w[\w., \t]*))", re.MULTILINE)
_LIBRARY = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


@dataclass(frozen=True, eq=False)
class Code:
    """The code of a package.

    Attributes:
        distribution: the name of the package.
        files: name -> path of each file, such as ``acme/attack.py``.
        stamps: name -> size and time of change of each file, before the package was imported.
        requires: name -> installed version of each library that counts by its version.
    """

    distribution: str
    files: Mapping[str, Path]
    stamps: Mapping[str, object]
    requires: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """The first digits of the digest; raises `HarnessError` if a file changed since the package was imported."""
        self.check()
        return digest([digest_of_files(self.files), dict(self.requires)])[:DIGITS]

    def check(self) -> None:
        """Raise `HarnessError` if a file changed since the package was imported: what runs here is the code before."""
        changed = [name for name, stamp in self.stamps.items() if _stamp(self.files[name]) != stamp]
        if changed:
            raise HarnessError(
                f"{changed[0]} of {self.distribution} changed after this process had imported it; start it again."
            )


def code_of(distribution: importlib.metadata.Distribution) -> Code:
    """Return the code of a package.

    Raises `PluginError` if none of its files can be read, as in an archive, and `OSError` if one of them cannot.
    """
    listed = [path for path in map(Path, map(str, distribution.files or ())) if _counts(path)]
    packages = {_top(point.value) for point in distribution.entry_points} | {_top(path.parts[0]) for path in listed}
    files, seen, waiting = dict[str, Path](), set[str](), sorted(packages)
    while waiting:  # its own packages, and then what these import
        name = waiting.pop()
        seen.add(name)
        files_of_name = package_files(name)
        is_library = any(map(_is_library, files_of_name.values()))
        if name in packages or not is_library:
            files.update(files_of_name)
            imported = {other for path in files_of_name.values() for other in _imported(path)}
            waiting += sorted(imported - seen)
    if not files:
        raise PluginError(f"no file of {', '.join(sorted(packages))} can be read; unpack it, or install it with pip")
    stamps = {name: _stamp(path) for name, path in files.items()}
    return Code(distribution.name, files, stamps, _requirements(distribution))


def package_files(package: str) -> dict[str, Path]:
    """Return the files of an importable package or module by their names, without byte code and hidden files."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return {}
    if spec.submodule_search_locations is None:
        file = Path(spec.origin) if spec.has_location and spec.origin else None
        return {file.name: file} if file is not None and file.is_file() else {}
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    return {f"{package}/{path.relative_to(top).as_posix()}": path for top in folders for path in _below(top)}


def digest_of_files(files: Mapping[str, Path]) -> str:
    """Return the digest of files: their names and contents."""
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        with path.open("rb") as file:
            total.update(hashlib.sha256(name.encode()).digest() + hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _below(top: Path) -> Iterator[Path]:
    """Yield the files in a folder and its folders, each folder once, even if links lead in a circle."""
    seen = set[str]()
    for folder, subfolders, names in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            subfolders.clear()  # os.walk then goes no further
            continue
        seen.add(real)
        subfolders[:] = [name for name in subfolders if _counts(Path(name))]
        for name in names:
            path = Path(folder, name)
            if _counts(Path(name)) and path.is_file():
                yield path


def _counts(path: Path) -> bool:
    """Return whether a file or folder belongs to the code: byte code, hidden and installers' files do not."""
    hidden = any(segment.startswith((".", "__editable__", "_editable_impl_")) for segment in path.parts)
    written = path.parts[0].endswith((".dist-info", ".egg-info")) or path.suffix in (".pyc", ".pyo", ".pth")
    return not (hidden or written or "__pycache__" in path.parts)


def _top(name: str) -> str:
    """Return the first part of a module's name, of a file's name, or of the value of an entry point."""
    return name.partition("[")[0].partition(":")[0].partition(".")[0].strip()


def _stamp(path: Path) -> object:
    """Return size and time of change of a file; None if it is not there."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns


def _imported(path: Path) -> Iterator[str]:
    """Yield the first part of the name of each module that a source file imports, except the harness's own."""
    if path.suffix != ".py":
        return
    for package, modules in _IMPORTS.findall(path.read_bytes()):
        for text in package.decode(), *modules.decode().split(","):
            name = _top(text.partition(" as ")[0])
            if name and not name.startswith("imharness"):
                yield name


def _is_library(path: Path) -> bool:
    """Return whether a file belongs to an installed package or to Python's standard library."""
    return bool(INSTALLED & set(path.parts)) or any(path.is_relative_to(folder) for folder in _LIBRARY)


def _requirements(distribution: importlib.metadata.Distribution) -> dict[str, str]:
    """Return the installed versions of the packages that the metadata require, but for those of the harness."""
    names = _names(distribution.requires or ()) - required_by_harness()
    return {name: version_of(name) for name in sorted(names)}


@cache
def required_by_harness() -> frozenset[str]:
    """Return the names of the packages that the harness requires, and its own."""
    return frozenset({DISTRIBUTION, *_names(importlib.metadata.requires(DISTRIBUTION) or ())})


def _names(lines: Sequence[str]) -> set[str]:
    """Return the names of the requirements, lines of the metadata, that hold in this environment."""
    requirements = [Requirement(line) for line in lines]
    needed = [each for each in requirements if each.marker is None or each.marker.evaluate()]
    return {canonicalize_name(requirement.name) for requirement in needed}
