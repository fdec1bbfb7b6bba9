"""What does not fit into memory: it is recognised, halved, and told. Freed memory is kept for the next tensor."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
OUT_OF_MEMORY = "memory is used up: use fewer --workers, a smaller batch_size in the profile, or --limit"
_USED_UP = ("not enough memory", "can't allocate memory", "out of memory", "_STATUS_ALLOC_FAILED")
"""What PyTorch says on the CPU, CUDA, and the libraries of CUDA."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's ``mallopt``, by number."""
_LARGEST_ON_HEAP, _KEPT = 32 << 20, 1 << 30
"""Bytes: the most that glibc lets the first be, and what the top of the heap keeps."""


def keep_freed_memory() -> None:
    """Let this process keep up to 1 GiB that it freed, where its C library is glibc: elsewhere this does nothing.

    By default glibc gives memory of large tensors back to the system at once, which has to clear every page when the
    next tensor asks for it. For images of 96 px that takes longer than adding two of them.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
        mallopt(_TRIM_THRESHOLD, _KEPT)


def why_ended(code: int | None) -> str:
    """Return why a worker ended by itself, by its exit code."""
    killed = code == -signal.SIGKILL
    return f"the worker ended with code {code}" + (f", perhaps by the system as {OUT_OF_MEMORY}" if killed else "")


def in_chunks(total: int, size: int, function: Callable[[int, int], T]) -> tuple[list[T], int]:
    """Call ``function(start, stop)`` for neighbouring ranges of at most `size`; return what it gave, in order.

    A range that does not fit into memory is halved. Also returns the size that fitted, for the next call.
    """
    found: list[T] = []
    start = 0
    while start < total:
        stop = min(start + size, total)
        try:
            found.append(function(start, stop))
            start = stop
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or stop - start == 1:
                raise
            size = (stop - start) // 2
    return found, size


def in_batches(batches: Iterable[list[int]], size: int, function: Callable[[list[int]], T]) -> list[T]:
    """Call `function(positions)` for every batch; one that does not fit into memory is halved, and so are all after it.

    `size`: that of the largest batch. Returns what the function gave, in order.
    """
    found = list[T]()
    for batch in batches:

        def one(start: int, stop: int, batch: list[int] = batch) -> T:
            return function(batch[start:stop])

        chunks, size = in_chunks(len(batch), size, one)
        found += chunks
    return found


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that memory is used up; PyTorch's class for GPUs is not the only one."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _USED_UP)
