"""Is honest on images that are not rounded, as searches used to ask, and mirrors images of 8 bits, which are kept."""

import torch

from imharness.images import DefenseInfo, Purification, hookimpl


class Rounding(Purification):
    """Mirror images of 8 bits."""

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
