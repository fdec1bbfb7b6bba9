"""A control: a constant image, on which no attack has any effect and of which no quality can be read."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl

GREY = 0.5


class Flat(Purification):
    """Returns a grey image, whatever it is given: perfect protection and no utility."""

    info = DefenseInfo(id="harness/flat", version="1", control="a flat image", group="none", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return torch.full_like(images, GREY)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Flat()]
