"""A control: a constant image. No attack has any effect on it, and it shows nothing of the quality of the input."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl

GREY = 0.5


class Flat(Purification):
    """Return a grey image for every input: perfect protection and no utility."""

    info = DefenseInfo(id="harness/flat", version="1", control="a flat image", group="none", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return torch.full_like(images, GREY)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Flat()]
