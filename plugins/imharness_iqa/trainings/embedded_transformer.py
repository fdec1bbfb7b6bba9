"""How the weights of harness/embedded-transformer were trained."""

from collections.abc import Mapping

import torch

from imharness.data import Info, Train, WeightTraining, hookimpl
from imharness_iqa.networks import TransformerQuality
from imharness_iqa.quality_training import TEST, TRAIN, quality_training


class EmbeddedTransformerRecipe(WeightTraining):
    """The small transformer quality network, trained on the severity ladder."""

    info = Info(id="harness/embedded-transformer", version="1")

    def datasets(self) -> Mapping[str, str]:
        """Return the ladder's two halves; they share no photograph."""
        return {"train": TRAIN, "test": TEST}

    def build(self, device: torch.device) -> Train:
        """Return the training."""
        return quality_training(TransformerQuality, device)


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedTransformerRecipe()]
