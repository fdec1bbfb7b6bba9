"""Weights in files: safetensors, and the format of torch without any code in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imharness.errors import UsageError
from imharness.reading.opening import GIB, MIB, read_bytes, shown
from imharness.reading.text import reason

if TYPE_CHECKING:
    import torch

HEAD = 16 * MIB
BYTES = 8 * GIB


def read_tensors(path: Path, limit: int = BYTES) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file of at most `limit` bytes, by name; raises `UsageError`."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = read_bytes(path, limit)
    if len(content) < 8 or int.from_bytes(content[:8], "little") > min(HEAD, len(content) - 8):
        raise UsageError(f"{shown(path)} is no safetensors file: its head is cut off.")
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise UsageError(f"{shown(path)} is no safetensors file: {reason(error)}") from None


def read_torch(path: Path, limit: int = BYTES) -> Any:
    """Return what a file in torch's own format holds, tensors and plain values; raises `UsageError`."""
    import torch

    content = read_bytes(path, limit)
    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch's reader raises errors of many types on files that are none
        raise UsageError(f"{shown(path)} holds no weights: {reason(error)}") from None
