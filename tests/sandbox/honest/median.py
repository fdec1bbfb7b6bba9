"""Takes the median of each pixel's 3 x 3 neighbourhood."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Honest(Purification):
    """Takes the median of each pixel's neighbourhood."""

    info = DefenseInfo(id="good/median", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            padded = torch.nn.functional.pad(images, [1] * 4, mode="reflect")
            return padded.unfold(2, 3, 1).unfold(3, 3, 1).flatten(-2).median(dim=-1).values

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Honest()]
