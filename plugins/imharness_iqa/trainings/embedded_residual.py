"""How the weights of harness/embedded-residual were trained."""

from collections.abc import Mapping

import torch

from imharness.data import Info, Train, WeightTraining, hookimpl
from imharness_iqa.networks import ResidualQuality
from imharness_iqa.quality_training import TEST, TRAIN, quality_training


class EmbeddedResidualRecipe(WeightTraining):
    """The small residual quality network, trained on the severity ladder."""

    info = Info(id="harness/embedded-residual", version="2")

    def datasets(self) -> Mapping[str, str]:
        """Return the ladder's two halves; they share no photograph."""
        return {"train": TRAIN, "test": TEST}

    def build(self, device: torch.device) -> Train:
        """Return the training."""
        return quality_training(ResidualQuality, device)


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedResidualRecipe()]
