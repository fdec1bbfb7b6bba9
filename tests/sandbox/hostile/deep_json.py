"""Answers with JSON that is nested a hundred thousand times."""

import contextlib
import os
import struct

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Answers with JSON that is nested a hundred thousand times."""

    info = DefenseInfo(id="evil/deep-json", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            text = b'{"__metadata__":{"kind":"result","facts":"' + b"[" * 100_000 + b"]" * 100_000 + b'"}}'
            blob = struct.pack("<Q", len(text)) + text
            for fd in range(3, 64):
                with contextlib.suppress(OSError):
                    os.write(fd, struct.pack("<4sQ", b"HRN1", len(blob)) + blob)
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
