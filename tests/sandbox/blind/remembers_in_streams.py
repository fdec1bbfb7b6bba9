"""Counts queries in the random streams, which travel out and in again, and brightens from the third on."""

import torch

from imharness.images import DefenseInfo, Purification, hookimpl


class Marking(Purification):
    """Brighten images whose stream was drawn from before."""

    info = DefenseInfo(id="blind/remembers-in-streams", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            used = rng.states()[:, 8] != 1  # how many numbers of the first block are left
            rng.uniform(1)
            return torch.where(used.view(-1, 1, 1, 1), (images + 0.2).clamp(0, 1), images)

        return purify


@hookimpl
def components():
    return [Marking()]
