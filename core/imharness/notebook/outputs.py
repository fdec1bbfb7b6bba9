"""Reads what a network returns: a tensor, or the one tensor in a tuple, a mapping or a record that can be meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from imharness.errors import UsageError

LOGITS = "logits"
"""The field under which transformers and torchvision return what others return alone."""


def output_of(output: Any, argument: str, dimensions: int = 2) -> Any:
    """Return what a network returned, without what it returned beside.

    Taken are the field or key `LOGITS`, the only tensor of `dimensions`, or else the only tensor. What holds no tensor
    is returned as it is. Raises `UsageError`, with the name of the argument, where several tensors can be meant.
    """
    if isinstance(output, torch.Tensor):
        return output
    if isinstance(output, Mapping):
        entries, named = list(output.values()), output.get(LOGITS)
    elif isinstance(output, tuple | list):
        entries, named = list(output), getattr(output, LOGITS, None)
    else:
        return output if getattr(output, LOGITS, None) is None else getattr(output, LOGITS)
    if isinstance(named, torch.Tensor):
        return named
    tensors = [entry for entry in entries if isinstance(entry, torch.Tensor) and entry.ndim]
    if not tensors:
        return output
    fitting = [entry for entry in tensors if entry.ndim == dimensions] or tensors
    if len(fitting) == 1:
        return fitting[0]
    raise UsageError(
        f"{argument}: it returns a {type(output).__name__} with {len(fitting)} tensors that may be the output; "
        "wrap it in a module that returns one of them."
    )
