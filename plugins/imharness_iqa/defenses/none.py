"""The baseline: no defense."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class NoDefense(Purification):
    """Return the images unchanged."""

    info = DefenseInfo(id="harness/none", version="1", control="no defense", group="none", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    return [NoDefense()]
