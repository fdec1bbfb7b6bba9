"""Blurs by kornia."""

import kornia.filters
import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Imports(Purification):
    """Blurs by kornia."""

    info = DefenseInfo(id="good/by-kornia", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return kornia.filters.median_blur(images, (3, 3))

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Imports()]
