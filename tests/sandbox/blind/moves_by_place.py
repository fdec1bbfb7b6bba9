"""Its inverse returns the position of each image in the call, so that a test sees the order of rows."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Inverse, Purification, Purifier, hookimpl


class Blind(Purification):
    """Returns images unchanged; its inverse returns positions."""

    info = DefenseInfo(id="blind/moves-by-place", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return images.clone()

        return purify

    def inverse(self, device: torch.device) -> Inverse:
        """Return images whose every value is their position in the call, divided by 100."""

        def undo(images: Images, shape: tuple[int, ...], rng: ImageRng) -> Images:
            return (torch.arange(len(images)) / 100).view(-1, 1, 1, 1).expand(-1, *shape).clone()

        return undo


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Blind()]
