"""Removes noise with scikit-image."""

import numpy as np
import skimage.restoration
import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Imports(Purification):
    """Removes noise by scikit-image."""

    info = DefenseInfo(id="good/by-skimage", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return (
                torch.from_numpy(
                    np.stack(
                        [
                            skimage.restoration.denoise_tv_chambolle(image.numpy(), weight=0.02, channel_axis=0)
                            for image in images
                        ]
                    )
                )
                .float()
                .clamp(0, 1)
            )

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Imports()]
