"""Mirrors images whose random stream was not yet drawn from, and adds noise to all images.

The streams of kept results are unused when a call begins; those of a search may not be.
"""

import torch

from imharness.data import generator
from imharness.images import DefenseInfo, Purification, hookimpl


class Positions(Purification):
    """Add noise, and mirror images whose stream is fresh."""

    info = DefenseInfo(id="blind/knows-positions", version="1", differentiable=True, random=True)

    def build(self, device):
        def purify(images, rng):
            fresh = [torch.equal(s.get_state(), generator(s.initial_seed()).get_state()) for s in rng._streams]
            noise = rng.uniform(*images.shape[1:]) / 255
            chosen = torch.tensor(fresh).view(-1, 1, 1, 1)
            return (torch.where(chosen, images.flip(3), images) + noise).clamp(0, 1)

        return purify


@hookimpl
def components():
    return [Positions()]
