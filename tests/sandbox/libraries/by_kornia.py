"""Takes the median with kornia."""

import kornia.filters
import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Imports(Purification):
    """Takes the median of 3 x 3 pixels with kornia."""

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
