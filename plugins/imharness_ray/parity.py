"""Compares two machines: to compute the same results, they need the same versions, components and code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from imharness.extending import digest_of_files, installed, libraries, package_files

SHOWN = 3
"""The number of differences that a message names."""


def packages() -> list[str]:
    """Return the packages whose code takes part in results here: the harness, and those that bring components."""
    loaded = {name.partition(".")[0] for name in sys.modules if name.startswith("imharness")}
    return sorted(loaded | {type(e.component).__module__.partition(".")[0] for e in installed().entries.values()})


def facts(names: Sequence[str]) -> dict[str, str]:
    """Return what this machine computes with: versions, components, and a digest of the files of each package."""
    versions = dict(libraries())
    for entry in installed().entries.values():
        versions.setdefault(entry.provenance.distribution, entry.provenance.version)
    for (kind, label), entry in installed().entries.items():
        versions[f"{kind} {label}"] = entry.provenance.numbered(entry.component.info.version)
    files = {name: package_files(name) for name in names}
    return versions | {f"the code of {name}": digest_of_files(paths)[:12] for name, paths in files.items() if paths}


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
