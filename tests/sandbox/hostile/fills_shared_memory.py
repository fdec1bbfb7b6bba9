"""Allocates shared memory until it is stopped, and ordinary memory where shared memory is refused."""

import mmap

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Takes shared memory without end."""

    info = DefenseInfo(id="evil/fills-shared-memory", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            buffers = []
            while True:
                try:
                    buffers.append(mmap.mmap(-1, 64 << 20))
                except OSError:
                    buffers.append(torch.ones(16 << 20))
                    continue
                buffers[-1].write(b"x" * (64 << 20))

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
