"""A small residual quality network, trained on real photographs with known distortions."""

import torch

from imharness.data import TrainableMetric, hookimpl
from imharness.images import MetricInfo
from imharness_iqa.networks import TUNING, ResidualQuality, trained


class EmbeddedResidual(TrainableMetric):
    """Small residual network trained here on a severity ladder, not on human judgements."""

    info = MetricInfo(
        id="harness/embedded-residual",
        version="2",
        higher_means="better_quality",
        bounds=(-7.13, -0.202),
        unit="minus severity",
        labelled="a small network trained for this package",
    )

    tuning = TUNING
    weights_package = "imharness_iqa.weights"

    def network(self, device: torch.device) -> torch.nn.Module:
        """Return the network."""
        return trained(ResidualQuality(), "embedded-residual", device)


@hookimpl
def components() -> list[TrainableMetric]:
    return [EmbeddedResidual()]
