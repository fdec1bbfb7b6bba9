"""How the weights of harness/embedded-ddpm were trained."""

import torch

from imharness.data import Images, Info, Train, WeightTraining, hookimpl
from imharness_iqa.defenses.diffpure import EMBEDDED
from imharness_iqa.restoration_training import CropTraining, training
from imharness_vision.diffusion import GuidedUNet, Schedule

SHALLOW = 100
"""The model learns the first steps only, because purification uses no others."""


class EmbeddedDdpmTraining(CropTraining):
    """The small diffusion model, trained on the first 100 of 1000 steps."""

    info = Info(id="harness/embedded-ddpm", version="1")

    def build(self, device: torch.device) -> Train:
        return training(lambda: GuidedUNet(**EMBEDDED), noise_loss, 700, noise_card)


def noise_loss(network: torch.nn.Module, clean: Images, rng: torch.Generator) -> torch.Tensor:
    """Return the squared error of the noise at random steps."""
    steps = torch.randint(SHALLOW, (len(clean),), generator=rng)
    kept = Schedule.linear().kept[steps].float().view(-1, 1, 1, 1)
    noise = torch.randn(clean.shape, generator=rng)
    return (network(kept.sqrt() * (2 * clean - 1) + (1 - kept).sqrt() * noise, steps) - noise).square().mean()


def noise_card(network: torch.nn.Module, crops: Images) -> dict[str, float]:
    """Return the squared error of the noise on the test crops; always answering zero gives 1."""
    rng = torch.Generator().manual_seed(0)
    return {"test_noise_error": round(float(noise_loss(network, crops, rng)), 4)}


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedDdpmTraining()]
