"""Median blur."""

import cv2
import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.fields import OddSize

SMALL = (3, 5)
"""Kernels for which OpenCV takes floats, too; for the smallest it is as fast on them as on grey levels."""


class MedianBlur(Purification):
    """Replace every value by the median of its square neighbourhood, channel by channel, borders mirrored."""

    info = DefenseInfo(
        id="harness/median-blur", version="3", group="filter", grid={"kernel": (3, 5, 7, 9, 11)}, differentiable=True
    )
    kernel: OddSize = Field(default=3, ge=3, le=31, description="Side of the neighbourhood, px, odd.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            padded = torch.nn.functional.pad(images, [self.kernel // 2] * 4, mode="reflect")
            if images.device.type == "cpu" and not images.requires_grad:
                levels = None if self.kernel == SMALL[0] else _grey_levels(padded)
                if levels is not None:
                    return self._by_opencv(levels).div(255)
                if self.kernel in SMALL:
                    return self._by_opencv(padded)
            windows = padded.unfold(2, self.kernel, 1).unfold(3, self.kernel, 1)
            return windows.flatten(-2).median(dim=-1).values

        return purify

    def _by_opencv(self, padded: torch.Tensor) -> torch.Tensor:
        """Return the medians of a batch in one call: all padded planes are stacked below each other."""
        stacked = padded.reshape(-1, padded.shape[3]).numpy()
        margin, found = self.kernel // 2, torch.from_numpy(cv2.medianBlur(stacked, self.kernel))
        return found.view(padded.shape)[:, :, margin:-margin, margin:-margin].contiguous()


def _grey_levels(images: Images) -> torch.Tensor | None:
    """Return uint8 levels, which OpenCV's large medians need; None where a value is between two levels."""
    levels = images * 255
    whole = levels.round()
    return whole.byte() if bool(levels.sub_(whole).abs_().max() < 1e-3) else None


@hookimpl
def components() -> list[Purification]:
    return [MedianBlur()]
