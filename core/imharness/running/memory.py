"""Recognises, halves and reports batches that do not fit into memory, and keeps freed memory for the next tensor."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
OUT_OF_MEMORY = "memory is used up: use fewer --workers, a smaller batch_size in the profile, or --limit"
_USED_UP = ("not enough memory", "can't allocate memory", "out of memory", "_STATUS_ALLOC_FAILED")
"""Parts of the messages of PyTorch on the CPU, of CUDA, and of CUDA's libraries."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of two parameters of glibc's ``mallopt``."""
_LARGEST_ON_HEAP, _KEPT = 32 << 20, 1 << 30
"""Bytes: the largest value that glibc allows for the second, and the memory to keep at the top of the heap."""


def keep_freed_memory() -> None:
    """Let this process keep up to 1 GiB of freed memory; does nothing unless the C library is glibc.

    By default glibc returns the memory of large tensors to the system at once, and the system has to clear every page
    for the next tensor. For images of 96 px this takes longer than adding two of them.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
        mallopt(_TRIM_THRESHOLD, _KEPT)


def why_ended(code: int | None) -> str:
    """Return why a worker ended by itself, as far as its exit code tells."""
    killed = code == -getattr(signal, "SIGKILL", 9)  # Windows has no signals, and no negative codes
    return f"the worker ended with code {code}" + (f"; perhaps {OUT_OF_MEMORY}" if killed else "")


def in_chunks(total: int, size: int, function: Callable[[int, int], T]) -> tuple[list[T], int]:
    """Call ``function(start, stop)`` for successive ranges of at most `size`, and return its results in order.

    A range that does not fit into memory is halved. The size that fitted is returned, too, for the next call.
    """
    results: list[T] = []
    start = 0
    while start < total:
        stop = min(start + size, total)
        try:
            results.append(function(start, stop))
            start = stop
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or stop - start == 1:
                raise
            size = (stop - start) // 2
    return results, size


def in_batches(batches: Iterable[list[int]], size: int, function: Callable[[list[int]], T]) -> list[T]:
    """Call `function(positions)` for every batch, and return its results in order.

    A batch that does not fit into memory is halved, and so are all after it. `size` is that of the largest batch.
    """
    results = list[T]()
    for batch in batches:

        def one(start: int, stop: int, batch: list[int] = batch) -> T:
            return function(batch[start:stop])

        chunks, size = in_chunks(len(batch), size, one)
        results += chunks
    return results


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory is used up; there are more classes than PyTorch's for GPUs."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _USED_UP)
