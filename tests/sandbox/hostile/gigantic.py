"""Announces a message of 2^60 bytes (one exbibyte)."""

import contextlib
import os
import struct

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Announces a message of an exabyte."""

    info = DefenseInfo(id="evil/gigantic", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            for fd in range(3, 64):
                with contextlib.suppress(OSError):
                    os.write(fd, struct.pack("<4sQ", b"HRN1", 1 << 60))
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
