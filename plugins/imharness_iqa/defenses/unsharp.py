"""Unsharp masking."""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.fields import OddSize
from imharness_vision.filters import filtered, gaussian_line

SIGMA, AMOUNT = 1.0, 1.0


class Unsharp(Purification):
    """Add the detail that a Gaussian blur (standard deviation 1 px) removes."""

    info = DefenseInfo(
        id="harness/unsharp", version="2", group="filter", grid={"kernel": (3, 5, 7, 9, 11)}, differentiable=True
    )
    kernel: OddSize = Field(default=3, ge=3, le=31, description="Kernel size in px, odd.")

    def build(self, device: torch.device) -> Purifier:
        line = gaussian_line(self.kernel, SIGMA).to(device)

        def purify(images: Images, rng: ImageRng) -> Images:
            blurred = filtered(F.pad(images, [self.kernel // 2] * 4, mode="reflect"), line)
            return (images + AMOUNT * (images - blurred)).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Unsharp()]
