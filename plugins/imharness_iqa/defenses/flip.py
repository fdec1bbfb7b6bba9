"""Mirroring, left and right."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Flip(Purification):
    """Mirrors each image left to right."""

    info = DefenseInfo(id="harness/flip", version="1", group="spatial", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return images.flip(3)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Flip()]
