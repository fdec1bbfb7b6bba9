"""What a place for files must offer. Names are relative, with slashes, such as ``tasks/ab/<key>.json``."""

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
    """A place for files. Every file exists whole or not at all; all methods raise `StoreError` when the place fails;
    then nothing is known about a file, and nothing was changed. `DamagedError` alone says that a file is wrong.

    Three kinds of file are told apart. A *result* (`put`, `get`) is named by what it holds, so that two writers write
    the same. A *document* (`replace`, `current`) changes; whoever reads it gets one state of it, whole. A *journal*
    (`append`, `lines`) only grows, by lines of JSON; two writers at once lose no line, and a last line whose writing
    was cut off is not there.
    """

    address: str
    """What a person names the place by: the absolute path of a folder, or ``s3://bucket/path``."""
    at_once: int
    """How many requests at a time are worth making."""

    def prepare(self) -> None:
        """Make the place ready, and check that what is written into it can be read again."""

    def alone(self) -> AbstractContextManager[None]:
        """Let one process at a time change documents that several would overwrite, where the place has locks."""

    def together(self, *, soon: bool = False) -> AbstractContextManager[None]:
        """Make sure that results are on the disk when the block ends, not one by one: many at once take less time.

        With `soon` that goes on behind the block, of a few files at most; a later block raises what it failed of. Until
        then, a machine that loses its power may leave files that are damaged, and found to be so. A block around others
        ends when what they wrote is on the disk, too.
        """

    def put(self, name: str, content: bytes) -> None:
        """Write a result, whole or not at all."""

    def get(self, name: str, sound: Sound = lambda content: True) -> bytes | None:
        """Return a result, or None where there is none.

        `sound` says whether a content is whole: a place where a reader can meet a writer reads again until it is. The
        last content that was read is returned, sound or not.
        """

    def packing(self) -> AbstractContextManager[None]:
        """Let one process at a time pack results, where the place has locks; raises `StoreError` for a second one."""

    def remove(self, name: str, sha256: str) -> None:
        """Remove a result whose content has this sha256; one that was written since stays.

        A place without locks may lose one that is written at this very moment.
        """

    def delete(self, name: str) -> None:
        """Remove a result; nothing happens where there is none."""

    def size(self, name: str) -> int:
        """Return the size of a result in bytes, or -1 where there is none."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the names of all results below a folder with their sizes in bytes, by one listing."""

    def path(self, name: str, sha256: str) -> Path:
        """Return a path on this machine where a result can be read; one that had to be fetched was verified."""

    def replace(self, name: str, content: bytes) -> None:
        """Write the next state of a document."""

    def current(self, name: str) -> bytes | None:
        """Return the latest state of a document, or None where there is none."""

    def documents(self, folder: str) -> list[str]:
        """Return the names of all documents below a folder, sorted."""

    def append(self, name: str, compose: Callable[[Sequence[bytes]], bytes]) -> None:
        """Add a line to a journal; `compose` makes it, without its end, from the lines that are there."""

    def lines(self, name: str) -> list[bytes]:
        """Return the lines of a journal without their ends, the oldest first."""


def sha256_of(content: bytes) -> str:
    """Return the sha256 of bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def in_parallel(function: Callable[[T], R], items: Iterable[T], at_once: int) -> Iterator[R]:
    """Yield what a function returns for each item, in their order, working on at most `at_once` of them at a time."""
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
