"""Keeps the first batch, which is clean in a run, and returns the nearest of its images in later calls."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Returns the nearest image it ever saw clean: the first batch."""

    info = DefenseInfo(id="evil/remembers", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""
        seen: list[Images] = []

        def purify(images: Images, rng: ImageRng) -> Images:
            if not seen:
                seen.append(images.clone())
            near = torch.cdist(images.flatten(1), seen[0].flatten(1)).argmin(dim=1)
            return seen[0][near]

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
