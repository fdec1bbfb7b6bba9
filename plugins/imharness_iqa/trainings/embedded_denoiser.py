"""How the weights of harness/embedded-denoiser were trained."""

from collections.abc import Mapping

import torch

from imharness.data import Images, Info, Train, WeightTraining, hookimpl
from imharness_iqa.restoration_training import datasets, restoring
from imharness_iqa.restorers import SmallDenoiser


class EmbeddedDenoiserRecipe(WeightTraining):
    """The small denoiser, trained on noise of up to 30 grey levels."""

    info = Info(id="harness/embedded-denoiser", version="1")

    def datasets(self) -> Mapping[str, str]:
        """Return clean crops."""
        return datasets()

    def build(self, device: torch.device) -> Train:
        """Return the training, on the CPU."""
        return restoring(SmallDenoiser, noisy, steps=800)


def noisy(clean: Images, rng: torch.Generator) -> Images:
    """Add white noise of a deviation of its own to each image."""
    sigma = 30 / 255 * torch.rand(len(clean), 1, 1, 1, generator=rng)
    return (clean + sigma * torch.randn(clean.shape, generator=rng)).clamp(0, 1)


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedDenoiserRecipe()]
