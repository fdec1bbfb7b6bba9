"""Takes the median with scipy."""

import numpy as np
import scipy.ndimage
import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Imports(Purification):
    """Takes the median by scipy."""

    info = DefenseInfo(id="good/by-scipy", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return torch.from_numpy(
                np.stack([scipy.ndimage.median_filter(image.numpy(), size=(1, 3, 3)) for image in images])
            )

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Imports()]
