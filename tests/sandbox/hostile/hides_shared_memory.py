"""Writes memory files until it is stopped, maps none of them, and takes ordinary memory where files are refused."""

import os

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Takes memory files without end, and maps none of them."""

    info = DefenseInfo(id="evil/hides-shared-memory", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            handles, block = [], b"x" * (32 << 20)
            while True:
                try:
                    handles.append(os.memfd_create("hidden"))
                except OSError:
                    handles.append(torch.ones(16 << 20))
                    continue
                os.write(handles[-1], block)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
