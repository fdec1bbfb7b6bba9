"""Checks that networks for images share: the shape of rows, and the depth of networks that are made of blocks."""

from __future__ import annotations

from imharness.errors import UsageError
from imharness.membership import Model


def need_images(model: Model, shape: tuple[int, ...], smallest: int) -> None:
    """Raise `UsageError` unless rows of the shape are images (C, H, W) with sides of `smallest` px or more."""
    if len(shape) != 3 or min(shape[1:]) < smallest:
        raise UsageError(
            f"{model.label}: rows must be images of at least {smallest} px a side, got shape {tuple(shape)}."
        )


def whole_blocks(depth: int, examples: str) -> int:
    """Return a depth that three equal groups of two-layer blocks can have; raise `ValueError` for another one."""
    if (depth - 4) % 6:
        raise ValueError(f"must be 4 more than a multiple of 6, such as {examples}, got {depth}")
    return depth
