"""Mirrors images but not their gradients: scores that are means over an image do not show the difference."""

from typing import Any

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class _Mirror(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: torch.Tensor) -> torch.Tensor:
        return images.flip(3)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> torch.Tensor:
        return upstream


class Blind(Purification):
    """Mirrors images."""

    info = DefenseInfo(id="blind/mirrors-alone", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return _Mirror.apply(images)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Blind()]
