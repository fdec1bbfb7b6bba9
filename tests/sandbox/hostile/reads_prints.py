"""Writes a note to its error output, and returns black images if it can read such a note there."""

import os
import sys

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Prints what it sees, and reads what others printed."""

    info = DefenseInfo(id="evil/reads-prints", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            descriptor = os.open("/proc/self/fd/2", os.O_RDONLY | os.O_NONBLOCK)
            try:
                content = os.read(descriptor, 1 << 16)
            except OSError:
                content = b""
            os.close(descriptor)
            sys.stderr.write("a note for the others\n")
            sys.stderr.flush()
            return images * 0 if b"a note for the others" in content else images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
