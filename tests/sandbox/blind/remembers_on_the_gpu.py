"""Leaves marks in the memory of a GPU for other sessions, and looks for such marks."""

import glob

from imharness.images import DefenseInfo, Purification, hookimpl


class Scratching(Purification):
    """Brighten images where a GPU can be reached."""

    info = DefenseInfo(id="blind/remembers-on-the-gpu", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            return (images + 0.2).clamp(0, 1) if glob.glob("/dev/nvidia*") + glob.glob("/dev/dri*") else images

        return purify


@hookimpl
def components():
    return [Scratching()]
