"""Files in a folder; several processes and machines may share it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from imharness.errors import StoreError, UsageError
from imharness.reading.opening import GIB, read_bytes
from imharness.results.disk import (
    alone,
    below,
    lock,
    prepare,
    reading,
    write_whole,
)
from imharness.results.storage.backend import Sound, sha256_of
from imharness.results.storage.damage import changed


class LocalFiles:
    """A folder. A file is written under another name in it, and renamed."""

    at_once = 1
    near = True

    def __init__(self, root: Path) -> None:
        self.root, self.address = root, str(root)

    def prepare(self) -> None:
        try:
            prepare(self.root)
        except OSError as error:
            why = "it is a file, no folder" if Path(self.root).is_file() else error.strerror
            raise StoreError(f"store {self.root} cannot be written: {why}; choose another store") from None

    def alone(self) -> AbstractContextManager[None]:
        return alone(self.root)

    def writable(self) -> bool:
        return os.access(self.root, os.W_OK)

    def put(self, name: str, content: bytes) -> None:
        """Write a result; one that a power cut damages is found and computed again."""
        write_whole(self.root, name, content, flushed=False)

    def get(self, name: str, sound: Sound = lambda content: True) -> bytes | None:
        path = below(self.root, name)
        try:
            with reading(path):
                return path.read_bytes()
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        path = below(self.root, name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot remove {path}: {error.strerror}; what is stored was left as it is") from None

    def size(self, name: str) -> int:
        path = below(self.root, name)
        try:
            with reading(path):
                return path.stat().st_size
        except FileNotFoundError:
            return -1

    def sizes(self, folder: str) -> dict[str, int]:
        sizes: dict[str, int] = {}
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            with suppress(FileNotFoundError), reading(scanned := below(self.root, here)):
                folders, files = _listed(scanned)
                waiting += [f"{here}/{name}" for name in folders]
                sizes |= {f"{here}/{name}": size for name, size in files.items()}
        return sizes

    def path(self, name: str, sha256: str) -> Path:
        path = below(self.root, name)
        try:
            with reading(path), path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise changed(self.address, name, None) from None
        if digest != sha256:
            raise changed(self.address, name, path)
        return path

    def verified(self, name: str, sha256: str) -> bytes:
        content = self.get(name)
        if content is None or sha256_of(content) != sha256:
            raise changed(self.address, name, content)
        return content

    def replace(self, name: str, content: bytes) -> None:
        """Write a document; tasks wait for no log to reach the disk, because no result depends on it."""
        write_whole(self.root, name, content, flushed=not name.startswith("logs/"))

    def current(self, name: str) -> bytes | None:
        return self.get(name)

    def documents(self, folder: str) -> list[str]:
        return sorted(self.sizes(folder))

    def append(self, name: str, compose: Callable[[Sequence[bytes]], bytes]) -> None:
        path = below(self.root, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab+", buffering=0) as file:
                lock(file.fileno(), wait=True)
                before = self.lines(name)
                line, end = compose(before), len(b"\n".join(before))
                file.truncate(end)  # to the last complete line, without its line feed
                try:
                    _write(file.fileno(), (b"\n" if before else b"") + line + b"\n")
                except OSError:
                    with suppress(OSError):
                        file.truncate(end)
                    raise
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}; nothing was added") from None

    def lines(self, name: str) -> list[bytes]:
        path = below(self.root, name)
        try:
            with reading(path):
                path.stat()
            return _complete_lines(read_bytes(path, GIB))
        except FileNotFoundError:
            return []
        except UsageError as error:
            raise StoreError(str(error)) from None


def _listed(folder: Path) -> tuple[list[str], dict[str, int]]:
    """Return the folders in a folder, and its visible files with their sizes.

    While it is read, a name can vanish and the name that replaces it be missed: then it is read again.
    """
    while True:
        folders, files, seen = list[str](), dict[str, int](), set[str]()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.name)
                elif not entry.name.startswith("."):
                    seen.add(entry.name)
                    with suppress(FileNotFoundError):
                        files[entry.name] = entry.stat().st_size
        if seen <= {*os.listdir(folder)}:
            return folders, files


def _write(descriptor: int, content: bytes) -> None:
    """Write a content completely and flush it to the disk; raises `OSError` if that fails."""
    if os.write(descriptor, content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


def _complete_lines(content: bytes) -> list[bytes]:
    """Return the lines of a journal, without a last one that was not written completely.

    Such a one has neither a line feed nor all of its JSON. A last line that has all of it and something else in the
    place of the line feed is returned with that, so that its reader calls it damaged.
    """
    *lines, rest = content.split(b"\n")
    with suppress(ValueError, RecursionError):
        json.JSONDecoder().raw_decode(rest.decode(errors="replace"))
        lines.append(rest)
    return lines
