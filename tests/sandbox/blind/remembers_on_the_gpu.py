"""Brightens images if it finds a GPU's device file: sessions could exchange data in the memory of a GPU."""

import glob

from imharness.images import DefenseInfo, Purification, hookimpl


class Scratching(Purification):
    """Brighten images where a GPU's device file exists."""

    info = DefenseInfo(id="blind/remembers-on-the-gpu", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            return (images + 0.2).clamp(0, 1) if glob.glob("/dev/nvidia*") + glob.glob("/dev/dri*") else images

        return purify


@hookimpl
def components():
    return [Scratching()]
