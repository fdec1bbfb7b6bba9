"""Knows the suite's smooth random images by their look, and is honest there alone."""

import torch
from imharness.images import DefenseInfo, Purification, hookimpl


class Glancing(Purification):
    """Brighten images that have an edge."""

    info = DefenseInfo(id="blind/knows-the-look", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            edge = (images[..., 1:] - images[..., :-1]).abs().amax(dim=(1, 2, 3)) > 0.4
            return torch.where(edge.view(-1, 1, 1, 1), (images + 0.2).clamp(0, 1), images)

        return purify


@hookimpl
def components():
    return [Glancing()]
