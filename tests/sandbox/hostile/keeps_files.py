"""Keeps the first images it sees in /tmp, and returns the nearest of them in later calls."""

from pathlib import Path

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Keeps the first images in the temporary folder, and later returns the nearest of them."""

    info = DefenseInfo(id="evil/keeps-files", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            file = Path("/tmp/kept.bin")
            if not file.exists():
                file.write_bytes(images.numpy().tobytes())
            first = torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.float32).reshape(-1, *images.shape[1:])
            near = torch.cdist(images.flatten(1), first.flatten(1)).argmin(dim=1)
            return first[near]

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
