"""How the weights of the three embedded quality metrics were trained."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import nn

from imharness.data import Info, hookimpl
from imharness.training import Train, WeightTraining
from imharness_iqa.networks import ConvQuality, ResidualQuality, TransformerQuality
from imharness_iqa.quality_training import TEST, TRAIN, quality_training


class _QualityTraining(WeightTraining):
    """Training of a fresh network on the severity ladder."""

    fresh: ClassVar[type[nn.Module]]

    def datasets(self) -> Mapping[str, str]:
        """Return both splits of the severity ladder, which share no photograph."""
        return {"train": TRAIN, "test": TEST}

    def build(self, device: torch.device) -> Train:
        return quality_training(self.fresh, device)


class EmbeddedCnnTraining(_QualityTraining):
    """The small convolutional quality network, trained on the severity ladder."""

    info = Info(id="harness/embedded-cnn", version="3")
    fresh = ConvQuality


class EmbeddedResidualTraining(_QualityTraining):
    """The small residual quality network, trained on the severity ladder."""

    info = Info(id="harness/embedded-residual", version="3")
    fresh = ResidualQuality


class EmbeddedTransformerTraining(_QualityTraining):
    """The small transformer quality network, trained on the severity ladder."""

    info = Info(id="harness/embedded-transformer", version="2")
    fresh = TransformerQuality


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedCnnTraining(), EmbeddedResidualTraining(), EmbeddedTransformerTraining()]
