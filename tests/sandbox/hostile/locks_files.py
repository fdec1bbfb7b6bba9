"""Locks its own source file, and returns black images if another process holds the lock."""

import fcntl
import os
import sys

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Finds the lock that another process of it holds on a file."""

    info = DefenseInfo(id="evil/locks-files", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""
        locked = []

        def purify(images: Images, rng: ImageRng) -> Images:
            file = os.open(sys.modules[__name__].__file__, os.O_RDONLY)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return images * 0
            except OSError:
                return images
            locked.append(file)
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
