"""Median smoothing: an input-purification defense."""

import torch
from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from pydantic import Field

IMHARNESS_API = "1.0"


class MedianSmoothing(Purification):
    """Replace every pixel by the median of its square neighbourhood."""

    info = DefenseInfo(id="acme/median-smoothing", version="1", differentiable=True, group="filter")
    radius: int = Field(default=1, ge=1, le=7, description="Neighbourhood radius, px.")

    def build(self, device: torch.device) -> Purifier:
        """Return the filter."""

        def purify(images: Images, rng: ImageRng) -> Images:
            side = 2 * self.radius + 1
            padded = torch.nn.functional.pad(images, [self.radius] * 4, mode="reflect")
            return padded.unfold(2, side, 1).unfold(3, side, 1).flatten(-2).median(dim=-1).values

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer two radii."""
    return [MedianSmoothing(radius=1), MedianSmoothing(radius=2)]
