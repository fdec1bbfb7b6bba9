"""Gaussian blur."""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.fields import OddSize
from imharness_vision.filters import filtered, gaussian_line


class GaussianBlur(Purification):
    """Blur with a Gaussian kernel; the standard deviation is 0.15 times the kernel size plus 0.35 px."""

    info = DefenseInfo(
        id="harness/gaussian-blur", version="2", group="filter", grid={"kernel": (3, 5, 7, 9, 11)}, differentiable=True
    )
    kernel: OddSize = Field(default=3, ge=3, le=31, description="Kernel size in px, odd.")

    def build(self, device: torch.device) -> Purifier:
        line = gaussian_line(self.kernel, 0.15 * self.kernel + 0.35).to(device)

        def purify(images: Images, rng: ImageRng) -> Images:
            return filtered(F.pad(images, [self.kernel // 2] * 4, mode="reflect"), line)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [GaussianBlur()]
