"""Adds noise from torch's global generator, although it does not declare that it is random."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Draws from randomness of its own."""

    info = DefenseInfo(id="evil/own-randomness", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return (images + 0.1 * torch.randn_like(images)).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
