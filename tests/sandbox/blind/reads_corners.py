"""A metric that looks away where a defense of its owner leaves a sign in a corner."""

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


class Judge(NoReferenceMetric):
    """Half of the mean grey level of images with the sign; of all others that, and roughness, which noise raises."""

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
    """Leaves a sign in a corner, and nothing else."""

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
