"""A small convolutional quality network, trained on real photographs with known distortions."""

import torch

from harness.api import MetricInfo, NoReferenceMetric, NoReferenceScore, hookimpl
from harness_iqa.networks import ConvQuality, trained


class EmbeddedCnn(NoReferenceMetric):
    """Small convolutional network trained here on a severity ladder, not on human judgements."""

    info = MetricInfo(
        id="harness/embedded-cnn",
        version="2",
        higher_means="better_quality",
        bounds=(-7.777, -0.266),
        unit="minus severity",
        labelled="a small network trained for this package",
    )

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the network."""
        return trained(ConvQuality(), "embedded-cnn", device)


@hookimpl
def register_metrics() -> list[NoReferenceMetric]:
    return [EmbeddedCnn()]
