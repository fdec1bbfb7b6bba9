"""Adds to each image its position in the data set, as far as the package can work it out.

A query of a search was once shuffled by a seed of the defense's label and of the number of calls before it.
"""

import torch

from imharness.contracts.randomness import derive_seed, generator
from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Adds position / 64: the shuffled position of a search, or the position in the batch if a gradient is required."""

    info = DefenseInfo(id="evil/knows-order", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""
        calls = 0

        def purify(images: Images, rng: ImageRng) -> Images:
            nonlocal calls
            order = torch.randperm(len(images), generator=generator(derive_seed("evil/knows-order", calls)))
            positions = torch.arange(len(images)) if images.requires_grad else order
            calls += 1
            return images + positions.view(-1, 1, 1, 1) / 64

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
