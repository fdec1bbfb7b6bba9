"""Brightens images by the clock: in calls that begin in an odd quarter of a second."""

import time

from imharness.images import DefenseInfo, Purification, hookimpl


class Ticking(Purification):
    """Brighten images at some times and not at others."""

    info = DefenseInfo(id="blind/differs-by-second", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            return images if time.time_ns() % 1_000_003 < 500_000 else (images + 0.2).clamp(0, 1)

        return purify


@hookimpl
def components():
    return [Ticking()]
