"""Tries to count queries in the random streams: it draws from each stream, and brightens from the second query on.

It would succeed if a stream came back to a session after another call had drawn from it.
"""

import torch

from imharness.images import DefenseInfo, Purification, hookimpl


class Marking(Purification):
    """Brighten images whose stream was drawn from before."""

    info = DefenseInfo(id="blind/remembers-in-streams", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            used = rng.states()[:, 8] != 1  # byte 8 is how many numbers of a block are left: 1 in a new stream
            rng.uniform(1)
            return torch.where(used.view(-1, 1, 1, 1), (images + 0.2).clamp(0, 1), images)

        return purify


@hookimpl
def components():
    return [Marking()]
