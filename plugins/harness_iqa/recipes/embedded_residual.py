"""How the weights of harness/embedded-residual were trained."""

from collections.abc import Mapping

import torch

from harness.api import ImageSet, Info, Progress, Recipe, Train, Trained, hookimpl, seeded_init
from harness_iqa.networks import ResidualQuality
from harness_iqa.recipes.quality_training import TEST, TRAIN, train_quality


class EmbeddedResidualRecipe(Recipe):
    """The small residual quality network, trained on the severity ladder."""

    info = Info(id="harness/embedded-residual", version="2")

    def datasets(self) -> Mapping[str, str]:
        """Return the ladder's two halves; they share no photograph."""
        return {"train": TRAIN, "test": TEST}

    def build(self, device: torch.device) -> Train:
        """Return the training."""

        def train(data: Mapping[str, ImageSet], rng: torch.Generator, progress: Progress) -> Trained:
            with seeded_init(rng):
                network = ResidualQuality()
            return train_quality(network, data, device, rng, progress)

        return train


@hookimpl
def register_recipes() -> list[Recipe]:
    return [EmbeddedResidualRecipe()]
