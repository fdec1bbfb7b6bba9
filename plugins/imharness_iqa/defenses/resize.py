"""Shrinking.

Guo, Rana, Cisse & van der Maaten, "Countering Adversarial Images using Input Transformations" (ICLR 2018).
"""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl

SMALLEST = 8
"""The shortest side of a shrunk image, px."""


class Resize(Purification):
    """Shrink with a bilinear filter; the metric sees the small image."""

    info = DefenseInfo(
        id="harness/resize",
        version="1",
        group="spatial",
        grid={"scale": (0.1, 0.25, 0.5, 0.75, 0.9)},
        differentiable=True,
        paper="guo2018",
    )
    scale: float = Field(default=0.5, gt=0, le=1, description="New side divided by the old side.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return shrunk(images, self.scale).clamp(0, 1)

        return purify


def shrunk(images: Images, scale: float) -> Images:
    """Return images whose sides are `scale` times as long, in (0, 1]; values may leave [0, 1] by rounding."""
    size = [max(SMALLEST, int(scale * side)) for side in images.shape[2:]]
    return F.interpolate(images, size, mode="bilinear", antialias=True, align_corners=False)


@hookimpl
def components() -> list[Purification]:
    return [Resize()]
