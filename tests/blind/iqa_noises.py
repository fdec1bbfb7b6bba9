"""Noise that is not declared, and noise whose best seed is chosen; neither gains over honest noise."""

import torch
from pydantic import Field

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier


class HashDither(Purification):
    """Add noise that follows from the last bits of the image, without declaring that it is random."""

    info = DefenseInfo(id="acme/hash-dither", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return (images + 0.25 * (_hash(images) - 0.5)).clamp(0, 1)

        return purify


def _hash(images: Images) -> Images:
    """Return noise in [0, 1) for each image, another one after any change of 1/255."""
    bits = (images.detach() * 255).round().long()
    seeds = (bits.flatten(1) * torch.arange(1, bits[0].numel() + 1)).sum(dim=1).tolist()
    return torch.stack([torch.rand(images.shape[1:], generator=torch.Generator().manual_seed(s)) for s in seeds])


class HashMirror(Purification):
    """Show one of four views, chosen by the last bits of the image, with the right gradient of that view."""

    info = DefenseInfo(id="acme/hash-mirror", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            chosen = (_hash(images)[:, 0, 0, 0] * 4).long()
            views = torch.stack([images, images.flip(2), images.flip(3), images.flip(2, 3)])
            return views[chosen, torch.arange(len(images))]

        return purify


class Seeded(Purification):
    """Add a little noise of a fixed pattern, whose seed is a parameter, so that the best of 300 seeds can win."""

    info = DefenseInfo(id="acme/seeded", version="1", differentiable=True, grid={"seed": tuple(range(300))})
    seed: int = Field(default=0, ge=0, le=299, description="Seed of the pattern.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            drawn = torch.rand(images.shape[1:], generator=torch.Generator().manual_seed(self.seed))
            return (images + 0.1 * (drawn - 0.5)).clamp(0, 1)

        return purify
