"""Changes the time of /dev/null, and returns black images if it finds the time that it sets."""

import contextlib
import os

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Leaves a mark at a device that all processes see."""

    info = DefenseInfo(id="evil/marks-devices", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            marked = int(os.stat("/dev/null").st_mtime) == 12345
            with contextlib.suppress(OSError):
                os.utime("/dev/null", (12345, 12345))
            return images * 0 if marked else images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
