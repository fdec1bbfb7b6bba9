"""What a place for files must offer. Names are relative and have slashes, such as ``tasks/ab/<key>.json``."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Sound = Callable[[bytes], bool]


class Backend(Protocol):
    """A place for files, each of which is complete or does not exist.

    All methods raise `StoreError` if the place fails; then nothing is known about the file, and nothing was changed.
    Only a `DamagedError` says that a file is wrong.

    There are three kinds of files. A *result* (`put`, `get`) is named by its content, so that two writers write the
    same. A *document* (`replace`, `current`) changes; a reader gets one complete state of it. A *journal* (`append`,
    `lines`) only grows, by lines of JSON; two writers at once lose no line, and a last line that was not written
    completely is ignored.
    """

    address: str
    """How a person names the place: the absolute path of a folder, or ``s3://bucket/path``."""
    at_once: int
    """How many requests at a time are worth making."""
    near: bool
    """Whether files lie on this machine, so that reading one again costs no request."""

    def prepare(self) -> None:
        """Make the place ready, and check that files can be written and read again."""

    def alone(self) -> AbstractContextManager[None]:
        """Let one process at a time change documents that several would overwrite, if the place has locks."""

    def writable(self) -> bool:
        """Return whether the place may be written, as far as that is known without trying it."""

    def put(self, name: str, content: bytes) -> None:
        """Write a result completely or not at all."""

    def get(self, name: str, sound: Sound = lambda content: True) -> bytes | None:
        """Return a result, or None if there is none.

        `sound` says whether a content is complete. A place where a reader can meet a writer reads a few times until it
        is; the last content is returned, sound or not.
        """

    def delete(self, name: str) -> None:
        """Remove a result if there is one."""

    def size(self, name: str) -> int:
        """Return the size of a result in bytes, or -1 if there is none."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return name -> size in bytes of all results below a folder, from one listing."""

    def path(self, name: str, sha256: str) -> Path:
        """Return a path on this machine where a result can be read, verified at each call; raises `DamagedError`."""

    def verified(self, name: str, sha256: str) -> bytes:
        """Return a result of this sha256, without fetching it where this machine did before; raises `DamagedError`."""

    def replace(self, name: str, content: bytes) -> None:
        """Write the next state of a document."""

    def current(self, name: str) -> bytes | None:
        """Return the latest state of a document, or None if there is none."""

    def documents(self, folder: str) -> list[str]:
        """Return the names of all documents below a folder, sorted."""

    def append(self, name: str, compose: Callable[[Sequence[bytes]], bytes]) -> None:
        """Add a line to a journal; `compose` makes it, without its line feed, from the lines that are there."""

    def lines(self, name: str) -> list[bytes]:
        """Return the lines of a journal without their line feeds, the oldest first."""


def sha256_of(content: bytes) -> str:
    """Return the sha256 of bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def in_parallel(function: Callable[[T], R], items: Iterable[T], at_once: int) -> Iterator[R]:
    """Yield what a function returns for each item, in order, with at most `at_once` calls at a time."""
    if at_once == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(at_once) as pool:
        running: deque[Future[R]] = deque()
        for item in items:
            running.append(pool.submit(function, item))
            if len(running) > 4 * at_once:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
