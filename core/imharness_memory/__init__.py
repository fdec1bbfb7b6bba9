"""What does not fit into memory: it is recognised, halved, and told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
OUT_OF_MEMORY = "memory is used up: use fewer --workers, a smaller batch_size in the profile, or --limit"
_USED_UP = ("not enough memory", "can't allocate memory")


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


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that memory is used up; PyTorch has a class of its own for GPUs only."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _USED_UP)
