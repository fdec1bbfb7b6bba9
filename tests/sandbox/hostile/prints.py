"""Prints a million lines."""

import sys

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Prints a million lines."""

    info = DefenseInfo(id="evil/prints", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            for i in range(1_000_000):
                sys.stdout.write(f"{i} is a number\n")
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
