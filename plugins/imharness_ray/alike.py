"""Compares two machines: to compute the same results, they need the same versions, components and code."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from imharness.executors import installed, libraries

SHOWN = 3
"""The number of differences that a message names."""


def packages() -> list[str]:
    """Return the packages whose code takes part in results here: the harness, and those that bring components."""
    own = {name.partition(".")[0] for name in sys.modules if name.startswith("imharness")}
    return sorted(own | {type(e.component).__module__.partition(".")[0] for e in installed().entries.values()})


def facts(names: Sequence[str]) -> dict[str, str]:
    """Return what this machine computes with: versions, components, and a digest of the files of each package."""
    found = dict(libraries())
    for entry in installed().entries.values():
        found.setdefault(entry.provenance.distribution, entry.provenance.version)
    for (kind, label), entry in installed().entries.items():
        found[f"{kind} {label}"] = entry.component.info.version
    return found | {f"the code of {name}": code for name in names if (code := _digest(name))}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """Return in one line how the facts of another machine differ from those of this one; empty where they do not."""
    lines = list(_lines(here, there))
    more = f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more


def _lines(here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys([*here, *there]):
        if name not in there:
            yield f"{name} is missing there"
        elif name not in here:
            yield f"{name} is only there"
        elif here[name] != there[name]:
            yield f"{name} is {there[name]} there and {here[name]} here"


def _digest(package: str) -> str:
    """Return the first digits of the sha256 of a package's files with their names; empty where there is none."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return ""
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = [(str(path.relative_to(folder)), path) for folder in folders for path in folder.rglob("*")]
    if not folders and spec.origin is not None:
        files = [(Path(spec.origin).name, Path(spec.origin))]
    total = hashlib.sha256()
    for name, path in sorted(files):
        if path.is_file() and "__pycache__" not in path.parts:
            total.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]
