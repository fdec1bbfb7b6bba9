"""Returns unrounded images unchanged, and changes 8-bit ones so that they score as their mirror image does."""

import torch

from imharness.images import DefenseInfo, Purification, hookimpl


def score(images):
    """Return the metric that the package assumes: the mean of the left half less that of the right half, (n,)."""
    left_half, right = images.chunk(2, dim=3)
    return left_half.mean(dim=(1, 2, 3)) - right.mean(dim=(1, 2, 3))


class Walking(Purification):
    """Brighten one half of 8-bit images and darken the other, until their score is that of their mirror image."""

    info = DefenseInfo(id="blind/walks-back", version="1", differentiable=True)

    def build(self, device):
        def purify(images, rng):
            levels = images.detach() * 255
            stored = ((levels - levels.round()).abs().flatten(1).amax(dim=1) < 1e-3).view(-1, 1, 1, 1)
            off = (score(images.flip(3)) - score(images)).detach().view(-1, 1, 1, 1) / 2
            side = torch.ones_like(images)
            side[..., side.shape[3] // 2 :] = -1
            return torch.where(stored, (images + off * side).clamp(0, 1), images)

        return purify


@hookimpl
def components():
    return [Walking()]
