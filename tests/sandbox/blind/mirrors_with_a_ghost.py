"""Mirrors images; its gradient is the identity's plus 0.013 of the mirrored gradient.

The mean score still changes as this gradient predicts, although the gradient belongs to other pixels.
"""

from typing import Any

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class _Mirror(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: torch.Tensor) -> torch.Tensor:
        return images.flip(3)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> torch.Tensor:
        return upstream + 0.013 * upstream.flip(3)


class Defense(Purification):
    """Mirrors images."""

    info = DefenseInfo(id="blind/mirrors-with-a-ghost", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the purifier."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return _Mirror.apply(images)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Defense()]
