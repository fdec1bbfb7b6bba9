"""Works out which image each row is, and marks it: the rows of a search were sorted by a seed that it can know."""

import torch

from imharness.contracts.randomness import derive_seed, generator
from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Marks each row by its place in the data set, as the seed of its label and of its number of calls gives it."""

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
