"""Random crop."""

import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Crop(Purification):
    """Cuts a square from a random place of each image; the metric sees only the square."""

    info = DefenseInfo(
        id="harness/crop",
        version="1",
        group="spatial",
        grid={"size": (32, 64, 128, 256, 288)},
        differentiable=True,
        random=True,
    )
    size: int = Field(default=128, ge=8, le=4096, description="Side, px; an image side that is shorter is kept whole.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            tall, wide = (min(self.size, side) for side in images.shape[2:])
            top = rng.integers(0, images.shape[2] - tall + 1, 1, 1)
            left = rng.integers(0, images.shape[3] - wide + 1, 1, 1)
            rows = top + torch.arange(tall, device=images.device).view(1, -1, 1)
            columns = left + torch.arange(wide, device=images.device).view(1, 1, -1)
            image = torch.arange(len(images), device=images.device).view(-1, 1, 1)
            return images.permute(0, 2, 3, 1)[image, rows, columns].permute(0, 3, 1, 2)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Crop()]
