"""Blurs with OpenCV."""

import cv2
import numpy as np
import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Imports(Purification):
    """Blurs by OpenCV."""

    info = DefenseInfo(id="good/by-cv2", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return torch.from_numpy(
                np.stack(
                    [
                        cv2.GaussianBlur(image.numpy().transpose(1, 2, 0), (3, 3), 0.8).transpose(2, 0, 1)
                        for image in images
                    ]
                )
            ).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Imports()]
