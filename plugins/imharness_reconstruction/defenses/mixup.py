"""MixUp as a defense: gradients of weighted sums of images (Zhang et al., ICLR 2018; Huang et al., NeurIPS 2021)."""

import torch
from pydantic import Field

from imharness.gradients import ImagePool, ImageProtection, ImageRng, Images, Info, ProtectImages, hookimpl

LARGEST = 0.65
"""No image has a larger weight in a mixture (Huang et al., ICML 2020, section 5.1)."""


def mixture(
    images: Images, targets: torch.Tensor, pool: ImagePool, rng: ImageRng, count: int
) -> tuple[Images, torch.Tensor]:
    """Return each image mixed with `count` - 1 others of the pool, and their targets with the same weights.

    The weights are drawn uniformly, divided by their sum and cut at `LARGEST`.
    """
    weights = rng.uniform(count).clamp(min=1e-3)
    weights = weights / weights.sum(dim=1, keepdim=True)
    excess = (weights - LARGEST).clamp(min=0)
    weights = weights - excess + excess.sum(dim=1, keepdim=True) * (excess == 0) / max(count - 1, 1)
    others = rng.integers(0, len(pool.images), count - 1)
    mixed, labels = weights[:, 0, None, None, None] * images, weights[:, 0, None] * targets
    for number in range(count - 1):
        share, chosen = weights[:, number + 1], others[:, number]
        mixed = mixed + share[:, None, None, None] * pool.images[chosen]
        labels = labels + share[:, None] * pool.targets[chosen]
    return mixed, labels


class MixUp(ImageProtection):
    """Replaces each image by a weighted sum of it and other images of the participant, and mixes labels likewise."""

    info = Info(id="harness/mixup", version="1", paper="zhang2018")
    count: int = Field(default=4, ge=2, le=16, description="Images in each mixture.")

    def build(self, device: torch.device) -> ProtectImages:
        def protect(
            images: Images, targets: torch.Tensor, pool: ImagePool, rng: ImageRng
        ) -> tuple[Images, torch.Tensor]:
            return mixture(images, targets, pool, rng, self.count)

        return protect


@hookimpl
def components() -> list[ImageProtection]:
    return [MixUp()]
