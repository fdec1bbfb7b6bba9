"""How the weights of harness/embedded-denoiser were trained."""

import torch
from torch import nn

from imharness.data import Images, Info, hookimpl
from imharness.training import WeightTraining
from imharness_iqa.restoration_training import CropTraining
from imharness_iqa.restorers import SmallDenoiser

STRONGEST, CERTIFIED = 32 / 255, 0.12
"""Standard deviations: of the strongest noise in the training, and of the noise of the denoised certifications."""


class EmbeddedDenoiserTraining(CropTraining):
    """The small denoiser, trained on noise of up to 32 grey levels; its gain is measured at sigma 0.12."""

    info = Info(id="harness/embedded-denoiser", version="4")
    steps = 1200
    margin = 2.5

    def fresh(self) -> nn.Module:
        return SmallDenoiser()

    def loss(self, network: nn.Module, clean: Images, rng: torch.Generator) -> torch.Tensor:
        sigma = STRONGEST * torch.rand(len(clean), 1, 1, 1, generator=rng)
        return (network(clean + sigma * torch.randn(clean.shape, generator=rng)) - clean).abs().mean()

    def pairs(self, network: nn.Module, clean: Images, rng: torch.Generator) -> tuple[Images, Images]:
        noisy = clean + CERTIFIED * torch.randn(clean.shape, generator=rng)
        return noisy.clamp(0, 1), network(noisy).clamp(0, 1)


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedDenoiserTraining()]
