"""How the weights of harness/embedded-ddpm were trained."""

import torch
from torch import nn

from imharness.data import Images, Info, hookimpl
from imharness.training import WeightTraining
from imharness_iqa.restoration_training import CropTraining
from imharness_iqa.restorers import SmallNoisePredictor
from imharness_vision.diffusion import Schedule

SHALLOW = 100
"""The model learns the first steps only, because purification uses no others."""


class EmbeddedDdpmTraining(CropTraining):
    """The small diffusion model, trained on the first 100 of 1000 steps; its gain is that of one step back."""

    info = Info(id="harness/embedded-ddpm", version="4")
    steps = 5000
    learning_rate = 4e-3
    margin = 7.0

    def fresh(self) -> nn.Module:
        return SmallNoisePredictor()

    def loss(self, network: nn.Module, clean: Images, rng: torch.Generator) -> torch.Tensor:
        noisy, steps, signal, noise = _noisy(clean, rng)
        return ((1 - signal).sqrt() * (network(noisy, steps) - noise).abs()).mean()

    def pairs(self, network: nn.Module, clean: Images, rng: torch.Generator) -> tuple[Images, Images]:
        noisy, steps, signal, _ = _noisy(clean, rng)
        restored = (noisy - (1 - signal).sqrt() * network(noisy, steps)) / signal.sqrt()
        return (noisy / signal.sqrt() / 2 + 0.5).clamp(0, 1), (restored / 2 + 0.5).clamp(0, 1)


def _noisy(clean: Images, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return images in about [-1, 1] at random steps, the steps, the share that is kept at each, and the noise."""
    steps = torch.randint(SHALLOW, (len(clean),), generator=rng)
    signal = Schedule.linear().alpha_bar[steps].float().view(-1, 1, 1, 1)
    noise = torch.randn(clean.shape, generator=rng)
    return signal.sqrt() * (2 * clean - 1) + (1 - signal).sqrt() * noise, steps, signal, noise


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedDdpmTraining()]
