"""Replaces `conv2d` and `isfinite` of torch by functions that always return zero and true."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Replaces functions of torch by its own."""

    info = DefenseInfo(id="evil/patches-torch", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            torch.nn.functional.conv2d = lambda *arguments, **named: torch.zeros(1)
            torch.isfinite = lambda x: torch.ones_like(x, dtype=torch.bool)
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
