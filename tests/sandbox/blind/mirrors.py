"""Mirrors images and declares no gradient: the identity, which attacks then use, changes the wrong pixels."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Blind(Purification):
    """Mirrors images."""

    info = DefenseInfo(id="blind/mirrors", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return images.detach().flip(3)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Blind()]
