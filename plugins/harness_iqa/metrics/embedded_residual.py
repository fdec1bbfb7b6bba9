"""A small residual quality network, trained on real photographs with known distortions."""

import torch

from harness.api import MetricInfo, NoReferenceMetric, NoReferenceScore, hookimpl
from harness_iqa.networks import ResidualQuality, trained


class EmbeddedResidual(NoReferenceMetric):
    """Small residual network trained here on a severity ladder, not on human judgements."""

    info = MetricInfo(
        id="harness/embedded-residual",
        version="2",
        higher_means="better_quality",
        bounds=(-7.13, -0.202),
        unit="minus severity",
        labelled="a small network trained for this package",
    )

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the network."""
        return trained(ResidualQuality(), "embedded-residual", device)


@hookimpl
def register_metrics() -> list[NoReferenceMetric]:
    return [EmbeddedResidual()]
