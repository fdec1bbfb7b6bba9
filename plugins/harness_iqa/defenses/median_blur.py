"""Median blur."""

import torch
from pydantic import Field

from harness.api import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from harness_iqa.fields import OddSize


class MedianBlur(Purification):
    """Replace every value by the median of its square neighbourhood, channel by channel, borders repeated."""

    info = DefenseInfo(
        id="harness/median-blur", version="1", group="filter", grid={"kernel": (3, 5, 7, 9, 11)}, differentiable=True
    )
    kernel: OddSize = Field(default=3, ge=3, le=31, description="Side of the neighbourhood, px, odd.")

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            padded = torch.nn.functional.pad(images, [self.kernel // 2] * 4, mode="replicate")
            windows = padded.unfold(2, self.kernel, 1).unfold(3, self.kernel, 1)
            return windows.flatten(-2).median(dim=-1).values

        return purify


@hookimpl
def register_defenses() -> list[Purification]:
    return [MedianBlur()]
