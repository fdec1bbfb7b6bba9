"""A small convolutional quality network, trained on real photographs with known distortions."""

import torch

from imharness.data import TrainableMetric, hookimpl
from imharness.images import MetricInfo
from imharness_iqa.networks import TUNING, ConvQuality, trained


class EmbeddedCnn(TrainableMetric):
    """Small convolutional network trained here on a severity ladder, not on human judgements."""

    info = MetricInfo(
        id="harness/embedded-cnn",
        version="2",
        higher_means="better_quality",
        bounds=(-7.777, -0.266),
        unit="minus severity",
        labelled="a small network trained for this package",
    )

    tuning = TUNING
    weights_package = "imharness_iqa.weights"

    def network(self, device: torch.device) -> torch.nn.Module:
        """Return the network."""
        return trained(ConvQuality(), "embedded-cnn", device)


@hookimpl
def components() -> list[TrainableMetric]:
    return [EmbeddedCnn()]
