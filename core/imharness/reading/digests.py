"""Digests of files, by which a component says what its files contain."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from pathlib import Path

SETTLED_NS = 2_000_000_000
"""How long ago a file must have changed so that a second change has another time, ns; file systems count in ticks."""
_digests: dict[str, str] = {}
"""What files look like from outside -> the digest of their contents, as it was computed in this process."""


def file_digest(file: str | Path) -> str:
    """Return the sha256 of a file's content as 64 hexadecimal digits, or "" where there is no such file."""
    path = Path(file)
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_digest(folder: Path, files: Iterable[Path]) -> str:
    """Return a digest of the contents of files, in this order, and of their names below a folder.

    A copy of the folder has the same digest, whatever its times. A file that is missing or cannot be read counts as
    such. Files are read again in a process only if one of them was replaced or written to, or was a moment before.
    """
    listed = [
        (file.relative_to(folder).as_posix() if file.is_relative_to(folder) else str(file), file) for file in files
    ]
    states = [_state(file) for _, file in listed]
    outside = _of([(name, state) for (name, _), state in zip(listed, states, strict=True)])
    if outside not in _digests:
        digest = _of([(name, _readable_digest(file)) for name, file in listed])
        if time.time_ns() - max((state[-1] for state in states if state), default=0) < SETTLED_NS:
            return digest
        _digests[outside] = digest
    return _digests[outside]


def _state(file: Path) -> tuple[int, ...]:
    """Return which file this is, its size and its times; the last one, of its last change, cannot be set."""
    try:
        seen = file.stat()
    except OSError:
        return ()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _readable_digest(file: Path) -> str:
    try:
        return file_digest(file)
    except OSError:
        return ""


def _of(facts: list[tuple[str, object]]) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()
