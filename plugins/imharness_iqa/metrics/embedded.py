"""Three small quality networks, trained on real photographs with known distortions."""

from typing import ClassVar

import torch
from torch import nn

from imharness.data import hookimpl
from imharness.images import MetricInfo
from imharness.training import TrainableMetric
from imharness_iqa.networks import TUNING, ConvQuality, ResidualQuality, TransformerQuality, trained


class _Embedded(TrainableMetric):
    """A network whose weights ship with this package."""

    fresh: ClassVar[type[nn.Module]]
    tuning = TUNING
    weights_package = "imharness_iqa.weights"

    def network(self, device: torch.device) -> nn.Module:
        """Return the network with its weights, frozen."""
        return trained(self.fresh(), self.info.id.partition("/")[2], device)


def _info(name: str, version: str, bounds: tuple[float, float], architecture: str = "CNN") -> MetricInfo:
    return MetricInfo(
        id=f"harness/{name}",
        version=version,
        higher_means="better_quality",
        bounds=bounds,
        unit="minus severity",
        labelled="a small network trained for this package",
        architecture=architecture,
    )


class EmbeddedCnn(_Embedded):
    """Small convolutional network, trained for this package on a severity ladder, not on human judgements."""

    info = _info("embedded-cnn", "4", (-7.881, -0.135))
    fresh = ConvQuality


class EmbeddedResidual(_Embedded):
    """Small residual network, trained for this package on a severity ladder, not on human judgements."""

    info = _info("embedded-residual", "4", (-7.472, -0.398))
    fresh = ResidualQuality


class EmbeddedTransformer(_Embedded):
    """Small transformer, trained for this package on a severity ladder, not on human judgements."""

    info = _info("embedded-transformer", "3", (-4.919, -0.059), "transformer")
    fresh = TransformerQuality


@hookimpl
def components() -> list[TrainableMetric]:
    return [EmbeddedCnn(), EmbeddedResidual(), EmbeddedTransformer()]
