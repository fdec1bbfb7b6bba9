"""Holds memory in the buffers of local sockets, which belong to no process."""

import socket

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl

HELD: list[object] = []


class Hoards(Purification):
    """Fills the buffers of at most 100 pairs of sockets with 300 MiB, and raises "FOUND" if nothing prevents it."""

    info = DefenseInfo(id="evil/hoards-in-sockets", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            total = 0
            try:
                while total < 300 << 20 and len(HELD) < 100:
                    pair = socket.socketpair()
                    HELD.append(pair)
                    for end in pair:
                        end.setblocking(False)
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
                        try:
                            while True:
                                total += end.send(bytes(1 << 20))
                        except BlockingIOError:
                            pass
            except OSError:
                return images
            raise RuntimeError(f"FOUND {len(HELD)} pairs of sockets, with {total >> 20} MiB")

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hoards()]
