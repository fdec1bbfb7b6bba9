"""Returns its input; its gradient is negated, mirrored and shifted, so that a white-box attack learns nothing."""

from typing import Any

import torch

from imharness.images import DefenseInfo, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Returns gradients that point nowhere: a white-box attack learns nothing."""

    info = DefenseInfo(id="evil/wrong-gradient", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        class Hidden(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, images: Images) -> Images:
                return images.clone()

            @staticmethod
            def backward(ctx: Any, upstream: Images) -> Images:
                return -upstream.flip(2).roll(7, 3)

        return lambda images, rng: Hidden.apply(images)


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
