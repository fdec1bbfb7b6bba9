"""Looks for near copies in its batch, and returns the smoothest near copy of each image."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Looks for near copies in its batch, and returns the smoother one of each pair."""

    info = DefenseInfo(id="evil/matches-pairs", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            rough = (images[..., 1:] - images[..., :-1]).abs().mean(dim=(1, 2, 3))
            # near: a root-mean-square difference below 0.05
            near = torch.cdist(images.flatten(1), images.flatten(1)) < 0.05 * images[0].numel() ** 0.5
            return images[torch.where(near, rough[None], torch.inf).argmin(dim=1)]

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
