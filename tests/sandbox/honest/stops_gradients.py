"""Rounds to 16 levels, and declares that it is not differentiable."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Honest(Purification):
    """Rounds to a few levels, and says that no gradient flows."""

    info = DefenseInfo(id="good/stops-gradients", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return (images * 15).round() / 15

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Honest()]
