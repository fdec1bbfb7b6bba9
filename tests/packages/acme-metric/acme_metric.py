"""Two metrics of a package of its own: one looks at an image alone, one at an image and its reference."""

from __future__ import annotations

import torch
from pydantic import Field

from imharness.images import (
    FullReferenceMetric,
    FullReferenceScore,
    Images,
    MetricInfo,
    NoReferenceMetric,
    NoReferenceScore,
    Scores,
    hookimpl,
)


class Contrast(NoReferenceMetric):
    """The standard deviation of the luma of an image, at most 0.5."""

    info = MetricInfo(id="acme/contrast", version="1", higher_means="better_quality", bounds=(0.0, 0.5))

    def build(self, device: torch.device) -> NoReferenceScore:
        weights = torch.tensor([0.299, 0.587, 0.114], device=device)[:, None, None]

        def contrast(images: Images) -> Scores:
            return (images * weights).sum(dim=1).flatten(1).std(dim=1, correction=0)

        return contrast


class Minkowski(FullReferenceMetric):
    """The root of the mean over pixels of a power of the absolute difference."""

    info = MetricInfo(id="acme/minkowski", version="1", higher_means="worse_quality", bounds=(0.0, 1.0))
    power: int = Field(default=2, ge=1, le=8, description="Exponent of differences.")

    def build(self, device: torch.device) -> FullReferenceScore:
        def distance(images: Images, references: Images) -> Scores:
            powers = (images - references).abs().pow(self.power)
            return powers.flatten(1).mean(dim=1).clamp(min=1e-12).pow(1 / self.power)

        return distance


@hookimpl
def components() -> list[NoReferenceMetric | FullReferenceMetric]:
    """Offer both."""
    return [Contrast(), Minkowski()]
