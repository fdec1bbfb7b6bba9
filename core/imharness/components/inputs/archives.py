"""Unpacks published archives without trusting them: paths that lead outside, links and zip bombs are refused."""

from __future__ import annotations

import errno
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from imharness.errors import HarnessError, UsageError
from imharness.reading.opening import DAMAGED, GIB, plain_file, printable
from imharness.reading.text import is_plain, reason

PACKED = 256 * GIB
UNPACKED = 512 * GIB
FREE = GIB
RATIO = 200
"""The most unpacked bytes for each byte of an archive, if they are more than `FREE`."""
MEMBERS = 2_000_000
BLOCK = 1 << 20
_FAILURES = (*DAMAGED, tarfile.TarError)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_archive(path: Path) -> bool:
    """Return whether a file has the extension of a zip or tar archive."""
    return path.name.lower().endswith((".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"))


def unpack(path: Path, into: Path) -> None:
    """Unpack a zip or tar archive into a folder; raises a `UsageError` of one line that names the archive.

    Raises `HarnessError` if the disk is full, because then the archive may be good.

    The number and the size of its files are bounded. A name that leads outside the folder, a link, a device and an
    encrypted file are refused, and so is an archive that is cut off.
    """
    with plain_file(path, PACKED) as file:
        packed, count, total = path.stat().st_size, 0, 0
        room = min(UNPACKED, max(FREE, RATIO * packed))
        try:
            for name, content in _members(path, file):
                count += 1
                if count > MEMBERS:
                    raise UsageError(f"{printable(path)} holds more than {MEMBERS} files.")
                total += _write(content, into / _inside(path, name), room - total, path)
        except UsageError:
            raise
        except _FAILURES as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise HarnessError(f"{printable(path)} cannot be unpacked: the disk with {into} is full") from None
            raise UsageError(f"{printable(path)} is cut off or not an archive: {reason(error)}") from None
    if not count:
        raise UsageError(f"{printable(path)} contains no files.")


def _members(path: Path, file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the name and the content of every plain file."""
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(file) as packed:
            for member in packed.infolist():
                kind = stat.S_IFMT(member.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise UsageError(f"{printable(path)} holds {member.filename!r:.100}, which is not a plain file.")
                if not member.is_dir():
                    with packed.open(member) as content:
                        yield member.filename, content
        return
    with tarfile.open(fileobj=file, mode="r:*") as tar:
        for entry in tar:
            if entry.isdir():
                continue
            stream = tar.extractfile(entry) if entry.isreg() else None
            if stream is None:
                raise UsageError(f"{printable(path)} holds {entry.name!r:.100}, which is not a plain file.")
            yield entry.name, stream
        assert tar.fileobj is not None
        tar.fileobj.seek(tar.offset)  # tarfile also takes a damaged header, or a cut, for the end of the archive
        if tar.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError(f"no end mark at byte {tar.offset}")


def _inside(path: Path, name: str) -> PurePosixPath:
    member = PurePosixPath(name)
    if not is_plain(name) or "\\" in name or member.is_absolute() or ".." in member.parts or len(name) > 300:
        raise UsageError(
            f"{printable(path)} holds a file with the name {name!r:.100}, which leads outside or is not one "
            "plain line of at most 300 characters."
        )
    return member


def _write(content: IO[bytes], destination: Path, room: int, path: Path) -> int:
    """Write a file of at most `room` bytes, and return how many it has."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    done = 0
    with destination.open("xb") as file:
        while block := content.read(BLOCK):
            done += len(block)
            if done > room:
                raise UsageError(f"{printable(path)} would unpack to more than is plausible for its size.")
            file.write(block)
    return done


def copy_plain(source: Path, destination: Path) -> None:
    """Copy a file or a folder of plain files; raises `UsageError` for a link or a special file in it."""
    for entry in [source, *(source.rglob("*") if source.is_dir() else ())]:
        kind = entry.lstat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise UsageError(f"{printable(entry)} is not a plain file.")
    destination.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, destination)
    else:
        shutil.copyfile(source, destination)
