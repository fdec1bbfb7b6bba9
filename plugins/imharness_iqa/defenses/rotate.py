"""Rotation by a random angle; nearest neighbours, as in the code of Guardians of Image Quality."""

import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Inverse, Purification, Purifier, hookimpl


class Rotate(Purification):
    """Rotate each image about its centre by an angle drawn uniformly from [-limit, limit]; corners turn black."""

    info = DefenseInfo(
        id="harness/rotate",
        version="2",
        group="spatial",
        grid={"limit": (10.0, 15.0, 20.0, 30.0, 50.0)},
        differentiable=True,
        random=True,
    )
    limit: float = Field(default=15, gt=0, le=180, description="Largest angle, in degrees.")

    def build(self, device: torch.device) -> Purifier:
        from kornia.geometry.transform import rotate

        def purify(images: Images, rng: ImageRng) -> Images:
            return rotate(images, self._angles(rng), mode="nearest")

        return purify

    def inverse(self, device: torch.device) -> Inverse:
        """Return the rotation back; parts that had left the image stay black."""
        from kornia.geometry.transform import rotate

        def undo(images: Images, shape: tuple[int, ...], rng: ImageRng) -> Images:
            return rotate(images, -self._angles(rng), mode="nearest")

        return undo

    def _angles(self, rng: ImageRng) -> torch.Tensor:
        return self.limit * (2 * rng.uniform() - 1)


@hookimpl
def components() -> list[Purification]:
    return [Rotate()]
