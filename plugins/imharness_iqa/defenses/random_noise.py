"""Additive noise."""

import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class RandomNoise(Purification):
    """Add white Gaussian noise, drawn for each image."""

    info = DefenseInfo(
        id="harness/random-noise",
        version="1",
        control="random noise",
        group="noise",
        grid={"sigma": (0.01, 0.025, 0.05, 0.075, 0.1)},
        differentiable=True,
        random=True,
    )
    sigma: float = Field(default=0.01, gt=0, le=1, description="Standard deviation, in units of the pixel range.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return (images + self.sigma * rng.normal(*images.shape[1:])).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [RandomNoise()]
