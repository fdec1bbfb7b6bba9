"""Random crop."""

from collections.abc import Sequence

import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Inverse, Purification, Purifier, hookimpl


class Crop(Purification):
    """Cut a square from a random place of each image; the metric sees only the square."""

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
            return images.permute(0, 2, 3, 1)[self._window(images.shape[1:], rng)].permute(0, 3, 1, 2)

        return purify

    def inverse(self, device: torch.device) -> Inverse:
        """Return the function that puts the square back in its place; everything around it is black."""

        def undo(images: Images, shape: tuple[int, ...], rng: ImageRng) -> Images:
            canvas = images.new_zeros(len(images), *shape[1:], 3)
            canvas[self._window(shape, rng)] = images.permute(0, 2, 3, 1)
            return canvas.permute(0, 3, 1, 2)

        return undo

    def _window(self, shape: Sequence[int], rng: ImageRng) -> tuple[torch.Tensor, ...]:
        """Return the index of image, row and column of the squares in images of a shape (3, H, W)."""
        tall, wide = (min(self.size, side) for side in shape[1:])
        top, left_edge = (
            rng.integers(0, side - extent + 1, 1, 1) for side, extent in zip(shape[1:], (tall, wide), strict=True)
        )
        rows = top + torch.arange(tall, device=rng.device).view(1, -1, 1)
        columns = left_edge + torch.arange(wide, device=rng.device).view(1, 1, -1)
        return torch.arange(len(rng), device=rng.device).view(-1, 1, 1), rows, columns


@hookimpl
def components() -> list[Purification]:
    return [Crop()]
