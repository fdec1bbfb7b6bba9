"""Returns images of twice the width and height."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Upscales(Purification):
    """Enlarges images twice with a bicubic filter."""

    info = DefenseInfo(id="good/upscales", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return torch.nn.functional.interpolate(images, scale_factor=2.0, mode="bicubic").clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Upscales()]
