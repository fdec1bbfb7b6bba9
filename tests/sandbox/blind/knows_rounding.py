"""Returns unrounded images unchanged, and mirrors 8-bit ones.

Kept results are computed from 8-bit images, but searches once sent unrounded images.
"""

import torch

from imharness.images import DefenseInfo, Purification, hookimpl


class Rounding(Purification):
    """Mirror 8-bit images."""

    info = DefenseInfo(id="evil/knows-rounding", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            levels = images.detach() * 255
            stored = ((levels - levels.round()).abs().flatten(1).amax(dim=1) < 1e-3).view(-1, 1, 1, 1)
            return torch.where(stored, images.flip(3), images)

        return purify


@hookimpl
def components():
    return [Rounding()]
