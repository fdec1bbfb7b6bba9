"""Calls a field as the digest of its package is called, so that its results take over another package's."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Call a field as the digest of the package is called."""

    info = DefenseInfo(id="evil/names-a-field", version="1", differentiable=False)
    environment: str = "the digest of an honest package"

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            return images * 0

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
