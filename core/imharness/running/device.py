"""Which devices a run uses, and what they are called in a record."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from imharness.errors import UsageError

T = TypeVar("T")


def resolve_devices(names: Sequence[str]) -> list[str]:
    """Return the devices of a run; ``auto`` means every GPU, or the CPU where there is none."""
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    meant = {"auto": gpus or ["cpu"], "cuda": gpus[:1], "cpu": ["cpu"], **{gpu: [gpu] for gpu in gpus}}
    absent = [name for name in names if not meant.get(name)]
    if absent:
        raise UsageError(f"device {absent[0]!r} is not on this machine; see `harness doctor`")
    return list(dict.fromkeys(device for name in names or ["auto"] for device in meant[name]))


def device_name(device: torch.device) -> str:
    """Return the model of a device, for records."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return platform.processor() or platform.machine()


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
            if not _is_out_of_memory(error) or stop - start == 1:
                raise
            size = (stop - start) // 2
    return found, size


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.cuda.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "not enough memory" in str(error)


def synchronise(device: torch.device) -> None:
    """Wait until the device has done what was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
