"""Brightens images by the clock."""

import time

from imharness.images import DefenseInfo, Purification, hookimpl


class Ticking(Purification):
    """Brighten images more or less, as the time says."""

    info = DefenseInfo(id="blind/differs-by-second", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            return (images + 0.2 * (time.time_ns() % 1_000_003) / 1_000_003).clamp(0, 1)

        return purify


@hookimpl
def components():
    return [Ticking()]
