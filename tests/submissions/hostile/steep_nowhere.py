"""A distance with a false gradient: attacks that follow it do not move the distance, which looks robust."""

from typing import Any

import torch

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: torch.Tensor) -> torch.Tensor:
        return images.clone()

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> torch.Tensor:
        return -upstream.flip(2, 3)


class Hostile(FullReferenceMetric):
    """The mean squared difference, with its gradient negated and turned by 180 degrees."""

    info = MetricInfo(id="evil/steep-nowhere", version="1", higher_means="worse_quality", differentiable=True)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric."""

        def score(images: Images, reference: Images) -> Scores:
            return (_Masked.apply(images) - reference).square().flatten(1).mean(dim=1)

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    """Offer the metric."""
    return [Hostile()]
