"""Has a field named `environment`, which is the name of the package's digest in task keys.

With the digest of another package as its value, it would take over the results of that package.
"""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Return black images, under the digest of an honest package."""

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
