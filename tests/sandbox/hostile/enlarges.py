"""Returns images of 25 times the pixels, for which the metric takes about 25 times as long."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Enlarges(Purification):
    """Repeats every pixel five times along both axes."""

    info = DefenseInfo(id="evil/enlarges", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return images.repeat_interleave(5, 2).repeat_interleave(5, 3)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Enlarges()]
