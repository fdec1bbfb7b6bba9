"""Writes bytes that are not a message into every open file."""

import contextlib
import os

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Writes nonsense into every open file."""

    info = DefenseInfo(id="evil/malformed", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            for fd in range(3, 64):
                with contextlib.suppress(OSError):
                    os.write(fd, b"nonsense " * 100)
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
