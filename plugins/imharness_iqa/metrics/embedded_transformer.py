"""A small transformer for quality, trained on real photographs with known distortions."""

import torch

from imharness.data import TrainableMetric, hookimpl
from imharness.images import MetricInfo
from imharness_iqa.networks import TUNING, TransformerQuality, trained


class EmbeddedTransformer(TrainableMetric):
    """Small transformer trained here on a severity ladder, not on human judgements."""

    info = MetricInfo(
        id="harness/embedded-transformer",
        version="1",
        higher_means="better_quality",
        bounds=(-4.798, 0.018),
        unit="minus severity",
        labelled="a small network trained for this package",
    )

    tuning = TUNING
    weights_package = "imharness_iqa.weights"

    def network(self, device: torch.device) -> torch.nn.Module:
        """Return the network."""
        return trained(TransformerQuality(), "embedded-transformer", device)


@hookimpl
def components() -> list[TrainableMetric]:
    return [EmbeddedTransformer()]
