"""Brightens the first image of each batch of five or eight images."""

import torch

from imharness.images import DefenseInfo, Purification, hookimpl


class Ordering(Purification):
    """Brighten the first image of a batch of five or eight."""

    info = DefenseInfo(id="blind/differs-by-position", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            if len(images) not in (5, 8):
                return images
            return torch.cat([(images[:1] + 0.2).clamp(0, 1), images[1:]])

        return purify


@hookimpl
def components():
    return [Ordering()]
