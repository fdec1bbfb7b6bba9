"""Mirroring along both axes, as in the code of Guardians of Image Quality."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Inverse, Purification, Purifier, hookimpl


class Flip(Purification):
    """Mirror each image left to right and top to bottom."""

    info = DefenseInfo(id="harness/flip", version="2", group="spatial", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return images.flip((2, 3))

        return purify

    def inverse(self, device: torch.device) -> Inverse:
        """Return the same mirroring, which undoes itself."""

        def undo(images: Images, shape: tuple[int, ...], rng: ImageRng) -> Images:
            return images.flip((2, 3))

        return undo


@hookimpl
def components() -> list[Purification]:
    return [Flip()]
