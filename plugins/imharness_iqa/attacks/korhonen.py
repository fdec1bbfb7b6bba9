"""Korhonen & You: gradient steps in textured regions, where they are hard to see.

Korhonen & You, "Adversarial attacks against blind image quality assessment models" (QoEVMA 2022). The published code
takes the signed horizontal Sobel response of the first image of a batch. Here every image has its own map, from the
magnitude of the gradient. As in that code, the score is divided by its range and the map by 255: where the map is
small, the gradient comes near Adam's epsilon of 1e-8, and the steps shrink with it.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from imharness.images import Attack, AttackInfo, Images, Perturb, Target, hookimpl
from imharness_iqa.adam_attack import STRENGTHS, AdamAttack, relative
from imharness_vision.constants import constant

LUMA = (0.299, 0.587, 0.114)
GREY_LEVELS = 255
SOBEL = ((-1.0, 0.0, 1.0), (-2.0, 0.0, 2.0), (-1.0, 0.0, 1.0))


def activity(images: Images) -> torch.Tensor:
    """Return ``(N, 1, H, W)`` in [0, 1]: Sobel magnitude of the luma over its maximum, dilated by a 5x5 octagon.

    The border of 1 px counts as flat; an image without any gradient is active everywhere.
    """
    weights = constant(LUMA, images).view(1, 3, 1, 1)
    kernel = constant(SOBEL, images)
    both = torch.stack([kernel, kernel.T])[:, None]
    slopes = F.conv2d((images * weights).sum(dim=1, keepdim=True), both)
    inner = torch.linalg.vector_norm(slopes, dim=1, keepdim=True)
    magnitude = F.pad(inner, [1] * 4)
    peak = magnitude.amax(dim=(1, 2, 3), keepdim=True)
    scaled = torch.where(peak > 0, magnitude / peak.clamp(min=1e-12), 1.0)
    return torch.maximum(F.max_pool2d(scaled, (5, 3), 1, (2, 1)), F.max_pool2d(scaled, (3, 5), 1, (1, 2)))


class Korhonen(AdamAttack):
    """Adam on the score, with the gradient masked by a map of spatial activity."""

    info = AttackInfo(
        id="harness/korhonen", version="2", access="white_box", norm="linf", strengths=STRENGTHS, paper="korhonen2022"
    )

    def build(self, device: torch.device) -> Perturb:
        """Return the attack: minus the score over its range, masked by the activity map of each image."""

        def loss(images: Images, target: Target) -> Callable[[Images], torch.Tensor]:
            return lambda x: -relative(target(x), target)

        def mask(images: Images) -> torch.Tensor:
            return activity(images) / GREY_LEVELS

        return self.descend(loss, mask)


@hookimpl
def components() -> list[Attack]:
    return [Korhonen()]
