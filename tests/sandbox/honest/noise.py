"""Adds noise from the streams it is given."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Honest(Purification):
    """Adds noise from the streams it is given."""

    info = DefenseInfo(id="good/noise", version="1", differentiable=True, random=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return (images + 0.05 * rng.normal(*images.shape[1:])).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Honest()]
