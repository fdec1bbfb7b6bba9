"""Opens only plain files, and reads no more of them than a limit allows."""

from __future__ import annotations

import errno
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from imharness.errors import UsageError

MIB = 1 << 20
GIB = 1 << 30
NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""Opens a pipe without waiting for its other end; 0 on Windows, where no name in a folder is a pipe."""
AS_IT_IS = getattr(os, "O_BINARY", 0)
"""Opens a file without a change to its line ends, which only Windows would make."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
)
"""What `zipfile` raises for damaged archives: `NotImplementedError` for a compression that it does not know,
`RuntimeError` for an encrypted file."""


@contextmanager
def plain_file(path: Path, limit: int, *, links: bool = True) -> Iterator[BinaryIO]:
    """Yield a file of at most `limit` bytes that is open for reading.

    A pipe, a socket, a device or a folder is refused without waiting for it. `links=False` also refuses a symbolic
    link; where the system cannot open a file on that condition (Windows), it is looked at before. Raises a `UsageError`
    that names the file.
    """
    try:
        if not links and not _NO_LINK and path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        descriptor = os.open(path, os.O_RDONLY | NO_WAIT | AS_IT_IS | (0 if links else _NO_LINK))
    except OSError as error:
        raise UsageError(f"{printable(path)} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise UsageError(f"{printable(path)} is not the name of a file.") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{printable(path)} is not a plain file.")
        if status.st_size > limit:
            raise UsageError(f"{printable(path)} has {status.st_size} bytes; at most {limit} are read.")
        yield file


def read_bytes(path: Path, limit: int = GIB, *, links: bool = True) -> bytes:
    """Return the content of a plain file of at most `limit` bytes; raises `UsageError`."""
    with plain_file(path, limit, links=links) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise UsageError(f"{printable(path)} cannot be read: {error.strerror}.") from None
    if len(content) > limit:
        raise UsageError(f"{printable(path)} has more than {limit} bytes, the most that are read.")
    return content


def read_text(path: Path, limit: int) -> str:
    """Return a text file of at most `limit` bytes in UTF-8, without a byte order mark; raises `UsageError`."""
    content = read_bytes(path, limit)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{printable(path)} is not UTF-8: byte {error.start} is {content[error.start]:#04x}."
        ) from None
    if "\0" in text:
        raise UsageError(f"{printable(path)} is not a text: it holds a NUL character.")
    return text


def printable(path: Path) -> str:
    """Return a path as text for messages, without characters that a terminal would interpret."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(path))
