"""Tries to open network connections, and suppresses the errors."""

import contextlib
import socket

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Opens connections, and hides that it failed."""

    info = DefenseInfo(id="evil/opens-socket", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            for address in (("127.0.0.1", 80), ("1.1.1.1", 53)):
                with contextlib.suppress(OSError), socket.create_connection(address, timeout=1):
                    raise RuntimeError("FOUND a way out")
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
