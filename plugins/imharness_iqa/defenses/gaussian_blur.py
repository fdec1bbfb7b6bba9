"""Gaussian blur."""

import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.fields import OddSize


class GaussianBlur(Purification):
    """Blur with a Gaussian kernel; the standard deviation is 0.15 times the kernel size plus 0.35 px."""

    info = DefenseInfo(
        id="harness/gaussian-blur", version="1", group="filter", grid={"kernel": (3, 5, 7, 9, 11)}, differentiable=True
    )
    kernel: OddSize = Field(default=3, ge=3, le=31, description="Kernel size, px, odd.")

    def build(self, device: torch.device) -> Purifier:
        from torchvision.transforms.functional import gaussian_blur

        def purify(images: Images, rng: ImageRng) -> Images:
            return gaussian_blur(images, [self.kernel] * 2, [0.15 * self.kernel + 0.35] * 2)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [GaussianBlur()]
