"""Reads weights from safetensors files, and from files in torch's format, without running code in them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imharness.errors import UsageError
from imharness.reading.opening import GIB, MIB, printable, read_bytes
from imharness.reading.text import reason

if TYPE_CHECKING:
    import torch

HEAD = 16 * MIB
BYTES = 8 * GIB


def read_tensors(path: Path, limit: int = BYTES) -> dict[str, torch.Tensor]:
    """Return name -> tensor for a safetensors file of at most `limit` bytes; raises `UsageError`."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = read_bytes(path, limit)
    if len(content) < 8 or int.from_bytes(content[:8], "little") > min(HEAD, len(content) - 8):
        raise UsageError(f"{printable(path)} is not a safetensors file: its header is cut off.")
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise UsageError(f"{printable(path)} is not a safetensors file: {reason(error)}") from None


def _numbers() -> list[Any]:
    """Return the globals that torch.load must allow for NumPy scalars, under their NumPy 1 and NumPy 2 names."""
    import numpy as np

    make = np.float64().__reduce__()[0]
    names = [(make, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")]
    return [*names, np.dtype, *{type(np.dtype(kind)) for kind in "?bhilqBHILQefd"}]


def read_torch(path: Path, limit: int = BYTES) -> Any:
    """Return the tensors and plain values in a file of torch's own format; raises `UsageError`.

    Plain values may be numbers of numpy, such as a learning rate that training kept beside the weights.
    """
    import torch

    content = read_bytes(path, limit)
    try:
        with torch.serialization.safe_globals(_numbers()):
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch's reader raises errors of many types for other files
        raise UsageError(f"{printable(path)} does not hold weights: {reason(error)}") from None
