"""Starts processes until it is stopped."""

import contextlib
import os

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Forks without end."""

    info = DefenseInfo(id="evil/forks", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            while True:
                with contextlib.suppress(OSError):
                    os.fork()

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
