"""Shrinking and enlarging again."""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.defenses.resize import shrunk


class Upscale(Purification):
    """Shrink each image and enlarge it to the old size, both with a bilinear filter."""

    info = DefenseInfo(
        id="harness/upscale",
        version="1",
        group="spatial",
        grid={"scale": (0.1, 0.25, 0.5, 0.75, 0.9)},
        differentiable=True,
    )
    scale: float = Field(default=0.5, gt=0, le=1, description="Side of the small image divided by the old side.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            small = shrunk(images, self.scale)
            return F.interpolate(small, images.shape[2:], mode="bilinear", align_corners=False).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Upscale()]
