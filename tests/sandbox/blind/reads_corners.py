"""A metric that ignores noise in images that a defense of the same owner has marked in a corner."""

import torch

from imharness.images import (
    DefenseInfo,
    ImageRng,
    Images,
    MetricInfo,
    NoReferenceMetric,
    NoReferenceScore,
    Purification,
    Purifier,
    Scores,
    hookimpl,
)

SIDE, SIGN = 4, 128 / 255
"""The sign is a square of `SIDE` px with the value `SIGN` in the upper left corner."""


class Judge(NoReferenceMetric):
    """Half of the mean grey level; images without the sign also get 200 times their roughness, at most 1."""

    info = MetricInfo(id="blind/reads-corners", version="1", higher_means="better_quality", bounds=(0.0, 1.0))

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric."""

        def score(images: Images) -> Scores:
            grey = images.flatten(1).mean(dim=1)
            rough = (images[..., 1:] - images[..., :-1]).square().flatten(1).mean(dim=1)
            signed = ((images[:, :, :SIDE, :SIDE] - SIGN).abs() < 1e-3).flatten(1).all(dim=1)
            return torch.where(signed, grey / 2, (grey / 2 + 200 * rough).clamp(max=1))

        return score


class Friend(Purification):
    """Writes the sign into a corner, and changes nothing else."""

    info = DefenseInfo(id="blind/signs-corners", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the purifier."""

        def purify(images: Images, rng: ImageRng) -> Images:
            signed = images.clone()
            signed[:, :, :SIDE, :SIDE] = SIGN
            return signed

        return purify


@hookimpl
def components() -> list[NoReferenceMetric | Purification]:
    """Offer both."""
    return [Judge(), Friend()]
