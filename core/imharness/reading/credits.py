"""Reads where the binary files of installed packages, such as weights, come from, and under which licence.

A package lists its binary files in a table, ``sources.toml``. ``[source.NAME]`` says what a source is, who has to be
named, and the licence. ``[file]`` gives the source and the SHA-256 of each file, under its path from the package's
parent folder.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from imharness.errors import UsageError
from imharness.reading.opening import printable
from imharness.reading.structured import read_toml

GROUP = "imharness"
FILE = "sources.toml"
_TEXTS = ("title", "address", "licence", "attribution", "changes", "terms")
"""The fields of a source that are text. The first four are required, and `terms` for licences that ask for credit."""


@dataclass(frozen=True)
class Credit:
    """A source and the files that come from it.

    Attributes:
        name: the name of the source in the table.
        title, address: what the source is, and where it is.
        licence, terms: the name of the licence, and the address of its text.
        attribution: who has to be named.
        changes: what was done to the files, or "".
        inside: the installed package that has the files, or "" if they ship with the package of the table.
        trained_on: for weights, the names of the sources of the training data.
        used_by: the components that use the files.
        files: (path, SHA-256) of each file.
    """

    name: str
    title: str
    address: str
    licence: str
    attribution: str
    changes: str = ""
    terms: str = ""
    inside: str = ""
    trained_on: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    @property
    def provenance(self) -> str:
        """Where the files are, what was done to them, and what they were trained on, as text for readers."""
        count = f"{len(self.files)} files" if len(self.files) > 1 else "1 file"
        location = f"{count} inside {self.inside}, read from there" if self.inside else f"{count}, shipped"
        trained = f"trained on {', '.join(self.trained_on)}" if self.trained_on else ""
        return "; ".join(filter(None, [location, self.changes, trained]))

    @property
    def line(self) -> str:
        """The title, who has to be named, and the licence with its address, as one line."""
        return f"{self.title} ({self.attribution}; {self.licence}{f', {self.terms}' if self.terms else ''})"


def credits_in(path: Path) -> tuple[Credit, ...]:
    """Return the sources of a table in its order; raises a `UsageError` of one line for an incomplete table."""
    document = read_toml(path)
    sources, files = document.get("source"), document.get("file")
    if not isinstance(sources, dict) or not isinstance(files, dict):
        raise UsageError(f"{printable(path)} needs [source.NAME] and [file].")
    for file, facts in files.items():
        if not isinstance(facts, dict) or set(facts) != {"source", "sha256"} or facts["source"] not in sources:
            raise UsageError(
                f"{printable(path)}: the file {file} needs sha256, and source, which is one of the table's."
            )
    return tuple(_credit(path, name, fields, sources, files) for name, fields in sources.items())


def _credit(path: Path, name: str, fields: Any, sources: dict[str, Any], files: dict[str, Any]) -> Credit:
    """Return one source. `fields`: its part of the table; `sources`, `files`: the whole table."""
    fields = fields if isinstance(fields, dict) else {}
    texts: dict[str, str] = {field: fields.get(field, "") for field in (*_TEXTS, "inside")}
    trained_on, used_by = (tuple(fields.get(field, ())) for field in ("trained_on", "used_by"))
    required = (*_TEXTS[:4], "terms") if texts["licence"].startswith("CC-BY") else _TEXTS[:4]
    missing = [field for field in required if not texts.get(field)]
    if missing:
        raise UsageError(f"{printable(path)}: the source {name} does not say {', '.join(missing)}.")
    unknown = [other for other in trained_on if other not in sources]
    further = set(fields) - set(texts) - {"trained_on", "used_by"}
    if unknown or further:
        raise UsageError(
            f"{printable(path)}: the source {name} names {', '.join([*unknown, *sorted(further)])}: unknown."
        )
    mine = tuple((file, facts["sha256"]) for file, facts in files.items() if facts["source"] == name)
    return Credit(name=name, **texts, trained_on=trained_on, used_by=used_by, files=mine)


def tables(points: Iterable[importlib.metadata.EntryPoint] | None = None) -> list[Path]:
    """Return the paths of the tables of all packages with entry points in the group ``imharness``; imports none."""
    entry_points = importlib.metadata.entry_points(group=GROUP) if points is None else points
    packages = {point.value.partition(":")[0].partition(".")[0] for point in entry_points}
    specs = [find_spec(package) for package in sorted(packages)]
    folders = [Path(location) for spec in specs if spec for location in spec.submodule_search_locations or ()]
    return [folder / FILE for folder in folders if (folder / FILE).is_file()]


def credits() -> tuple[Credit, ...]:
    """Return the sources in the tables of all installed packages; raises `UsageError` for an incomplete table."""
    return tuple(credit for path in tables() for credit in credits_in(path))
