"""Differentiable JPEG, from kornia.

Reich, Debnath, Patel & Chakradhar, "Differentiable JPEG: The Devil is in the Details" (WACV 2024).
"""

import torch
import torch.nn.functional as F
from pydantic import Field

from harness.api import DefenseInfo, ImageRng, Images, Paper, Purification, Purifier, hookimpl

BLOCK = 16


class DiffJpeg(Purification):
    """JPEG with a smooth rounding, so that gradients pass; the borders are repeated up to whole blocks."""

    info = DefenseInfo(
        id="harness/diffjpeg",
        version="1",
        group="compression",
        grid={"quality": (10, 30, 50, 70, 90)},
        differentiable=True,
        paper=Paper(
            title="Differentiable JPEG: The Devil is in the Details",
            authors="Reich, Debnath, Patel & Chakradhar",
            year=2024,
            url="https://arxiv.org/abs/2309.06978",
        ),
    )
    quality: int = Field(default=50, ge=1, le=99, description="JPEG quality.")

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""
        from kornia.enhance import jpeg_codec_differentiable

        def purify(images: Images, rng: ImageRng) -> Images:
            height, width = images.shape[2:]
            whole = F.pad(images, (0, -width % BLOCK, 0, -height % BLOCK), mode="replicate")
            quality = torch.full((len(images),), float(self.quality), device=images.device)
            return jpeg_codec_differentiable(whole, quality)[:, :, :height, :width].clamp(0, 1)

        return purify


@hookimpl
def register_defenses() -> list[Purification]:
    return [DiffJpeg()]
