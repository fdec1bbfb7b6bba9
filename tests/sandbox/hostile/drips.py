"""Announces a message of 1 MiB, and then sends one byte every 20 ms."""

import contextlib
import os
import time

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Answers with one byte in a while, without end."""

    info = DefenseInfo(id="evil/drips", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            channels = []
            for fd in range(3, 64):
                with contextlib.suppress(OSError):
                    os.write(fd, b"HRN1" + (1 << 20).to_bytes(8, "little"))
                    channels.append(fd)
            while True:
                for fd in channels:
                    os.write(fd, b" ")
                time.sleep(0.02)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
