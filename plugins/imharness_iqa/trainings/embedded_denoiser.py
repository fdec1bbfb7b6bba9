"""How the weights of harness/embedded-denoiser were trained."""

import torch

from imharness.data import Images, Info, Train, WeightTraining, hookimpl
from imharness_iqa.restoration_training import CropTraining, restoring
from imharness_iqa.restorers import SmallDenoiser


class EmbeddedDenoiserTraining(CropTraining):
    """The small denoiser, trained on noise of up to 30 grey levels."""

    info = Info(id="harness/embedded-denoiser", version="1")

    def build(self, device: torch.device) -> Train:
        return restoring(SmallDenoiser, noisy, steps=800)


def noisy(clean: Images, rng: torch.Generator) -> Images:
    """Add white noise, with another standard deviation for each image."""
    sigma = 30 / 255 * torch.rand(len(clean), 1, 1, 1, generator=rng)
    return (clean + sigma * torch.randn(clean.shape, generator=rng)).clamp(0, 1)


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedDenoiserTraining()]
