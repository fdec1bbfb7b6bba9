"""Writes files into its folder until it is full, and suppresses the error."""

import contextlib
from pathlib import Path

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Fills the folder it may write in, and hides it."""

    info = DefenseInfo(id="evil/fills-disk", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            with contextlib.suppress(OSError):
                for i in range(10_000):
                    Path(f"/tmp/{i}").write_bytes(bytes(8 << 20))
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
