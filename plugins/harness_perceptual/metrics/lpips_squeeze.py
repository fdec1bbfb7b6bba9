"""LPIPS with the SqueezeNet 1.1 backbone and the published linear heads, through the package lpips.

Zhang et al., "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric" (CVPR 2018), equation 1.
"""

import torch

from harness.api import Asset, FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Paper, Scores, hookimpl
from harness_vision.perceptual import SQUEEZENET, lpips_squeeze


class LpipsSqueeze(FullReferenceMetric):
    """Learned perceptual distance (LPIPS 0.1, SqueezeNet, linear heads); 0 for identical images."""

    info = MetricInfo(
        id="harness/lpips-squeeze",
        version="1",
        higher_means="worse_quality",
        unit="1",
        paper=Paper(
            title="The Unreasonable Effectiveness of Deep Features as a Perceptual Metric",
            authors="Zhang, Isola, Efros, Shechtman & Wang",
            year=2018,
            url="https://arxiv.org/abs/1801.03924",
        ),
    )

    def assets(self) -> tuple[Asset, ...]:
        """Return the backbone; the linear heads come with the package lpips."""
        return (SQUEEZENET,)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric."""
        network = lpips_squeeze(device)

        def score(images: Images, reference: Images) -> Scores:
            return network(images, reference, normalize=True).flatten()

        return score


@hookimpl
def register_metrics() -> list[FullReferenceMetric]:
    return [LpipsSqueeze()]
