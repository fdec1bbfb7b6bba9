"""Brightens images by an amount that depends on the current time."""

import time

from imharness.images import DefenseInfo, Purification, hookimpl


class Ticking(Purification):
    """Brighten images by up to 0.2, by the current time in ns modulo 1 000 003."""

    info = DefenseInfo(id="blind/differs-by-second", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            return (images + 0.2 * (time.time_ns() % 1_000_003) / 1_000_003).clamp(0, 1)

        return purify


@hookimpl
def components():
    return [Ticking()]
