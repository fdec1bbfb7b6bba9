"""Median blur."""

import cv2
import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.fields import OddSize


class MedianBlur(Purification):
    """Replace every value by the median of its square neighbourhood, channel by channel, borders mirrored."""

    info = DefenseInfo(
        id="harness/median-blur", version="2", group="filter", grid={"kernel": (3, 5, 7, 9, 11)}, differentiable=True
    )
    kernel: OddSize = Field(default=3, ge=3, le=31, description="Side of the neighbourhood, px, odd.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            if images.device.type == "cpu" and not images.requires_grad and _eight_bit(images):
                return self._by_opencv(images)
            padded = torch.nn.functional.pad(images, [self.kernel // 2] * 4, mode="reflect")
            windows = padded.unfold(2, self.kernel, 1).unfold(3, self.kernel, 1)
            return windows.flatten(-2).median(dim=-1).values

        return purify

    def _by_opencv(self, images: Images) -> Images:
        """Return the medians of a batch in one call: the padded images are stacked below each other."""
        n, _, height, width = images.shape
        margin = self.kernel // 2
        padded = torch.nn.functional.pad(images, [margin] * 4, mode="reflect").mul(255).round().byte()
        stacked = padded.permute(0, 2, 3, 1).reshape(-1, width + 2 * margin, 3).contiguous().numpy()
        found = torch.from_numpy(cv2.medianBlur(stacked, self.kernel)).view(n, height + 2 * margin, -1, 3)
        inner = found[:, margin : margin + height, margin : margin + width]
        return inner.permute(0, 3, 1, 2).float().div(255).contiguous()


def _eight_bit(images: Images) -> bool:
    """Say whether all values are whole grey levels, the only ones that OpenCV's large medians accept."""
    levels = images * 255
    return bool((levels - levels.round()).abs().max() < 1e-3)


@hookimpl
def components() -> list[Purification]:
    return [MedianBlur()]
