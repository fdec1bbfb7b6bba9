"""InstaHide: MixUp and a random sign per pixel.

Huang, Song, Li & Arora, "InstaHide: Instance-hiding Schemes for Private Distributed Learning" (ICML 2020), algorithm 1,
within the participant's own images. Signs are flipped around mid-grey, so that an encoding is an image in [0, 1].
"""

import torch
from pydantic import Field

from imharness.gradients import ImagePool, ImageProtection, ImageRng, Images, Info, ProtectImages, hookimpl
from imharness_reconstruction.defenses.mixup import mixture


class InstaHide(ImageProtection):
    """Mixes each image with others of the participant and flips the sign of half of the pixels at random."""

    info = Info(id="harness/instahide", version="1", paper="huang2020")
    count: int = Field(default=4, ge=2, le=16, description="Images in each mixture.")

    def build(self, device: torch.device) -> ProtectImages:
        def protect(
            images: Images, targets: torch.Tensor, pool: ImagePool, rng: ImageRng
        ) -> tuple[Images, torch.Tensor]:
            mixed, labels = mixture(images, targets, pool, rng, self.count)
            signs = 1 - 2 * (rng.uniform(1, *images.shape[2:]) < 0.5).float()
            return (0.5 + signs * (mixed - 0.5)).clamp(0, 1), labels

        return protect


@hookimpl
def components() -> list[ImageProtection]:
    return [InstaHide()]
