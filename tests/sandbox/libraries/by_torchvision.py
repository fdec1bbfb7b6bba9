"""Blurs with torchvision."""

import torch
import torchvision.transforms.functional

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Imports(Purification):
    """Blurs by torchvision."""

    info = DefenseInfo(id="good/by-torchvision", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return torchvision.transforms.functional.gaussian_blur(images, [3, 3], [0.8, 0.8]).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Imports()]
