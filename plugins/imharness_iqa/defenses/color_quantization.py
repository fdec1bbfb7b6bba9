"""Colour quantisation.

Xu, Evans & Qi, "Feature Squeezing: Detecting Adversarial Examples in Deep Neural Networks" (NDSS 2018), section III-A.
"""

import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class ColorQuantization(Purification):
    """Round every channel to a few evenly spaced levels."""

    info = DefenseInfo(
        id="harness/color-quantization",
        version="1",
        group="compression",
        grid={"npp": (2, 5, 16, 20, 25)},
        differentiable=False,
        paper="xu2018",
    )
    npp: int = Field(default=16, ge=2, le=256, description="Levels per channel, including 0 and 1.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return (images * (self.npp - 1)).round_().div_(self.npp - 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [ColorQuantization()]
