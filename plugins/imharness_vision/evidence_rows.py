"""Attacked images that somebody handed in as evidence, their originals, and the distances between them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from imharness.data import ImageSet
from imharness.errors import UsageError
from imharness.images import BaseAttack
from imharness.tracks import StepContext


@dataclass(frozen=True)
class HandedIn:
    """Images that somebody handed in as made by an attack.

    `originals`: the images before the attack; `pixels`: the handed-in images, uint8 ``(3, H, W)``, in the same order.
    """

    attack: BaseAttack
    originals: ImageSet
    pixels: Sequence[np.ndarray]

    @classmethod
    def of(cls, context: StepContext) -> "HandedIn":
        """Return the images that a step needs as ``evidence``; raises `UsageError` for an unknown name of an image."""
        handed, images = context.need("evidence"), context.images()
        positions, names = {name: position for position, name in enumerate(images.names)}, list(handed.rows["name"])
        for name in names:
            if name not in positions:
                dataset_label = context.component("dataset").label
                raise UsageError(f"evidence on {name!r:.100}: {dataset_label} has no such image here")
        pixels = [handed.arrays[str(i)] for i in range(len(names))]
        return cls(context.component("attack"), images.at([positions[name] for name in names]), pixels)

    def images(self, positions: Sequence[int], originals: torch.Tensor) -> torch.Tensor:
        """Return handed-in images ``(N, 3, H, W)`` in [0, 1] beside their originals of the same shape.

        Raises `UsageError` where the size differs.
        """
        pictures = [self.pixels[p] for p in positions]
        for position, picture in zip(positions, pictures, strict=True):
            if picture.shape != tuple(originals.shape[1:]):
                sizes = " and ".join(f"{shape[2]} x {shape[1]}" for shape in (picture.shape, originals.shape[1:]))
                name = self.originals.names[position]
                raise UsageError(f"evidence on {name}: width and height differ from the original's: {sizes}")
        return torch.from_numpy(np.stack(pictures)).to(originals.device).float() / 255

    def facts(self) -> dict[str, list[object]]:
        """Return the rows ``name``, ``clean`` and ``allowed``, see `imharness.tracks.Track.evidence_steps`."""
        positions = range(len(self.originals))
        return {
            "name": list(self.originals.names),
            "clean": [clean_digest(self.originals.load([p])[0]) for p in positions],
            "allowed": [allowed(self.attack)] * len(positions),
        }


def clean_digest(image: torch.Tensor) -> str:
    """Return the sha256 of an image ``(3, H, W)`` in [0, 1] as 8 bits ``(H, W, 3)``."""
    return hashlib.sha256(image.mul(255).round().byte().permute(1, 2, 0).contiguous().numpy().tobytes()).hexdigest()


def distance(attack: BaseAttack, attacked: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Return how far attacked images ``(N, 3, H, W)`` are from images, in the norm of an attack ``(N,)``."""
    change = (attacked - images).flatten(1)
    if attack.info.norm == "l2":
        return torch.linalg.vector_norm(change, dim=1)
    if attack.info.norm == "l0":
        return (attacked != images).any(dim=1).flatten(1).sum(dim=1).float()
    return change.abs().amax(dim=1)


def allowed(attack: BaseAttack) -> float:
    """Return the greatest distance that an attack's images have once they are rounded to 8 bits; NaN without a bound.

    Originals are multiples of 1/255, so that rounding leaves the nearest multiple to the radius.
    """
    radius = attack.budget().radius
    if radius is None or attack.info.norm == "unrestricted":
        return float("nan")
    return ball_of_8_bits(radius) if attack.info.norm == "linf" else radius * (1 + 1e-4)


def ball_of_8_bits(radius: float) -> float:
    """Return the radius of an L-infinity ball to the nearest multiple of 1/255, with room for rounding errors."""
    return (int(255 * radius + 0.5) + 0.01) / 255
