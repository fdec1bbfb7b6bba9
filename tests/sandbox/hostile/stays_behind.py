"""Leaves a process behind that never ends."""

import contextlib
import os
import time

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Leaves a process behind that goes on working."""

    info = DefenseInfo(id="evil/stays-behind", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            if os.fork() == 0:
                for fd in range(3, 64):
                    with contextlib.suppress(OSError):
                        os.close(fd)
                while True:
                    time.sleep(1)
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
