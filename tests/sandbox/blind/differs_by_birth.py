"""Brightens images in the first second after its module was imported, and returns them unchanged later.

The later calls of a long search are therefore answered honestly; the first call in a new process is not.
"""

import time

from imharness.images import DefenseInfo, Purification, hookimpl

BORN = time.monotonic()


class Young(Purification):
    """Brighten images in the first second after its module was imported."""

    info = DefenseInfo(id="blind/differs-by-birth", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            young = time.monotonic() - BORN < 1
            time.sleep(0.5)
            return (images + 0.2).clamp(0, 1) if young else images

        return purify


@hookimpl
def components():
    return [Young()]
