"""Files in a folder; several processes and machines may share it."""

from __future__ import annotations

import errno
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from imharness.errors import StoreError, UsageError
from imharness.reading.opening import GIB, read_bytes
from imharness.results.disk import (
    alone,
    below,
    flush_soon,
    lock,
    one_at_a_time,
    prepare,
    reading,
    remove_if,
    settle,
    write_whole,
)
from imharness.results.storage.backend import Sound, sha256_of

BEHIND = 32
"""The most files that may still be on their way to the disk when further results are written."""


EVERY_S = 0.25
"""Seconds between two flushes within a block; flushing a few files at once takes less time than one by one."""


class LocalFiles:
    """A folder. A file is written under another name in it, flushed to the disk, and renamed."""

    at_once = 1

    def __init__(self, root: Path) -> None:
        self.root, self.address = root, str(root)
        self._unflushed: list[Path] | None = None
        self._flushing: deque[Future[None]] = deque()
        self._since = 0.0

    def prepare(self) -> None:
        try:
            prepare(self.root)
        except OSError as error:
            why = "it is a file, no folder" if Path(self.root).is_file() else error.strerror
            raise StoreError(f"store {self.root} cannot be written: {why}; choose another store") from None

    def alone(self) -> AbstractContextManager[None]:
        return alone(self.root)

    def packing(self) -> AbstractContextManager[None]:
        return one_at_a_time(self.root, ".packing", f"another process is packing {self.address}; nothing was done")

    @contextmanager
    def together(self, *, soon: bool = False) -> Iterator[None]:
        outer = self._unflushed is None
        if outer:
            settle(self._flushing, BEHIND)
            self._unflushed, self._since = [], time.monotonic()
        try:
            yield
        finally:
            if outer or (soon and time.monotonic() - self._since > EVERY_S):
                written, self._unflushed = self._unflushed or (), None if outer else []
                self._since = time.monotonic()
                self._flushing += flush_soon(written)
            if outer and not soon:
                settle(self._flushing)

    def put(self, name: str, content: bytes) -> None:
        unflushed = self._unflushed
        write_whole(self.root, name, content, flushed=unflushed is None)
        if unflushed is not None:
            unflushed.append(below(self.root, name))

    def get(self, name: str, sound: Sound = lambda content: True) -> bytes | None:
        path = below(self.root, name)
        try:
            with reading(path):
                return path.read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, name: str, sha256: str) -> None:
        remove_if(self.root, name, lambda content: sha256_of(content) == sha256)

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
        found: dict[str, int] = {}
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            with suppress(FileNotFoundError), reading(place := below(self.root, here)), os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir():
                        waiting.append(f"{here}/{entry.name}")
                    elif not entry.name.startswith("."):
                        with suppress(FileNotFoundError):  # it has been removed since
                            found[f"{here}/{entry.name}"] = entry.stat().st_size
        return found

    def path(self, name: str, sha256: str) -> Path:
        return below(self.root, name)

    def replace(self, name: str, content: bytes) -> None:
        """Write a document; the log that a task writes within its block is not flushed, as no result depends on it."""
        write_whole(self.root, name, content, flushed=self._unflushed is None)

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
                content, end = compose(before) + b"\n", len(b"\n".join(before))
                file.truncate(end)  # remove a last line that was not written completely
                try:
                    _write(file.fileno(), (b"\n" if before else b"") + content)
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
            return _whole(read_bytes(path, GIB))
        except FileNotFoundError:
            return []
        except UsageError as error:
            raise StoreError(str(error)) from None


def _write(descriptor: int, content: bytes) -> None:
    """Write a content completely and flush it to the disk; raises `OSError` if that fails."""
    if os.write(descriptor, content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


def _whole(content: bytes) -> list[bytes]:
    """Return the lines of a journal, without a last one that was not written completely and so is not valid JSON."""
    lines = content.split(b"\n")
    try:
        json.loads(lines[-1])
    except (ValueError, RecursionError):
        lines.pop()
    return lines
