"""What networks of images ask of their rows and of their depth, in the same words."""

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
    """Return a depth of three groups of blocks with two layers each; raise `ValueError` if blocks are not whole."""
    if (depth - 4) % 6:
        raise ValueError(f"must be 4 more than a multiple of 6, such as {examples}, got {depth}")
    return depth
