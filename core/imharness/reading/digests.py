"""Digests of files, by which a component says what its files contain."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from pathlib import Path

SETTLED_NS = 2_000_000_000
"""A file that was changed more recently than this, in ns, may change again without a new time: file systems count time
in ticks."""
_digests: dict[str, str] = {}
"""Digest of the names, sizes and times of files -> the digest of their contents, as computed in this process."""


def file_digest(file: str | Path) -> str:
    """Return the sha256 of a file's content as 64 hexadecimal digits, or "" where there is no such file."""
    path = Path(file)
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_digest(folder: Path, files: Iterable[Path]) -> str:
    """Return a digest of the contents of files, in this order, and of their names below a folder.

    A copy of the folder has the same digest, whatever the times of its files. A file that is missing or cannot be read
    counts as an empty digest. The result is kept in this process, and files are read again only if the name, size or
    time of one of them has changed. It is not kept if a file was changed within the last `SETTLED_NS`.
    """
    listed = [
        (file.relative_to(folder).as_posix() if file.is_relative_to(folder) else str(file), file) for file in files
    ]
    states = [_state(file) for _, file in listed]
    state_digest = _digest_of([(name, state) for (name, _), state in zip(listed, states, strict=True)])
    if state_digest in _digests:
        return _digests[state_digest]
    digest = _digest_of([(name, _readable_digest(file)) for name, file in listed])
    last_change_ns = max((state[-1] for state in states if state), default=0)
    if time.time_ns() - last_change_ns >= SETTLED_NS:
        _digests[state_digest] = digest
    return digest


def _state(file: Path) -> tuple[int, ...]:
    """Return device, inode number, size and times of a file, or () if there is none.

    The last number is the time at which the file's facts last changed, in ns, which no program can set.
    """
    try:
        seen = file.stat()
    except OSError:
        return ()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _readable_digest(file: Path) -> str:
    """Return the digest of a file, or "" if it cannot be read."""
    try:
        return file_digest(file)
    except OSError:
        return ""


def _digest_of(facts: list[tuple[str, object]]) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()
