"""Digests of files, by which a component says what its files contain."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def file_digest(file: str | Path) -> str:
    """Return the sha256 of a file's content as 64 hexadecimal digits, or "" where there is no such file."""
    path = Path(file)
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def state_digest(files: Iterable[Path]) -> str:
    """Return a digest of the names, sizes and modification times of files; it reads none of them."""
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(states).encode()).hexdigest()
