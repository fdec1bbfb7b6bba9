"""Colour quantisation.

Xu, Evans & Qi, "Feature Squeezing: Detecting Adversarial Examples in Deep Neural Networks" (NDSS 2018), section III-A.
"""

import numpy as np
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
        steps = self.npp - 1

        def purify(images: Images, rng: ImageRng) -> Images:
            if images.device.type != "cpu":
                return (images * steps).round_().div_(steps)
            levels = images.detach().numpy() * np.float32(steps)  # numpy's memory is used again sooner than torch's
            np.rint(levels, out=levels)
            levels /= steps
            return torch.from_numpy(levels)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [ColorQuantization()]
