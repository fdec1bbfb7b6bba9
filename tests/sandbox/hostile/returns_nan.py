"""Returns NaN."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Returns NaN."""

    info = DefenseInfo(id="evil/returns-nan", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return torch.full_like(images, float("nan"))

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
