"""Unsharp masking."""

import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.fields import OddSize

SIGMA, AMOUNT = 1.0, 1.0


class Unsharp(Purification):
    """Adds the detail that a Gaussian blur (standard deviation 1 px) removes."""

    info = DefenseInfo(
        id="harness/unsharp", version="1", group="filter", grid={"kernel": (3, 5, 7, 9, 11)}, differentiable=True
    )
    kernel: OddSize = Field(default=3, ge=3, le=31, description="Kernel size, px, odd.")

    def build(self, device: torch.device) -> Purifier:
        from torchvision.transforms.functional import gaussian_blur

        def purify(images: Images, rng: ImageRng) -> Images:
            blurred = gaussian_blur(images, [self.kernel] * 2, [SIGMA] * 2)
            return (images + AMOUNT * (images - blurred)).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Unsharp()]
