"""Denoisers that certifications put between the noise and the metric."""

import torch
from pydantic import Field
from torch import nn

from imharness.images import Asset, ImageRng, Images
from imharness_iqa.defenses.diffpure import diffusion_model
from imharness_iqa.networks import Backbone, trained
from imharness_iqa.restorers import SmallDenoiser, padded
from imharness_iqa.smoothing import Denoise
from imharness_vision.diffusion import Schedule
from imharness_vision.weights import fill, frozen, state_dict

DNCNN = Asset(
    name="dncnn-25",
    file="weights/dncnn/dncnn_25.pth",
    sha256="0451a70de9b672ae037270498fbb1c17a1c1c4403785df586ff65df5b858e5b0",
    size=2224903,
    licence="MIT",
    source="https://github.com/cszn/KAIR",
    address="https://github.com/cszn/KAIR/releases/download/v1.0/dncnn_25.pth",
)


def backbone_field() -> Backbone:
    """Return the field that chooses the network of a denoiser."""
    return Field(default="published", description="Network and weights of the denoiser.")


class DnCnn(nn.Module):
    """Zhang et al., "Beyond a Gaussian Denoiser" (TIP 2017): 17 layers predict the noise of grey ``(N, 1, H, W)``."""

    def __init__(self, layers: int = 17, width: int = 64) -> None:
        super().__init__()
        inner = [m for _ in range(layers - 2) for m in (nn.Conv2d(width, width, 3, 1, 1), nn.ReLU())]
        self.model = nn.Sequential(nn.Conv2d(1, width, 3, 1, 1), nn.ReLU(), *inner, nn.Conv2d(width, 1, 3, 1, 1))

    def forward(self, grey: torch.Tensor) -> torch.Tensor:
        return self.model(grey)


DNCNN_SIGMA = 25 / 255
"""The standard deviation of the noise that the published DnCNN was trained to remove."""


def convolutional(backbone: Backbone, sigma: float, device: torch.device) -> Denoise:
    """Return DnCNN, applied to each channel, or the embedded denoiser, for noise of standard deviation `sigma`.

    DnCNN was trained on noise of 25 grey levels. For stronger noise, images are scaled down to that level and back
    afterwards; for weaker noise they are not scaled up, because it was trained on no values above 1 either.
    """
    if backbone == "embedded":
        small = trained(SmallDenoiser(), "embedded-denoiser", device)
        return lambda noisy, rng: small(noisy).clamp(0, 1)
    network = DnCnn()
    fill(network, DNCNN, state_dict(DNCNN))
    network, scale = frozen(network, device), min(1.0, DNCNN_SIGMA / sigma)

    def denoise(noisy: Images, rng: ImageRng) -> Images:
        grey = noisy.flatten(0, 1)[:, None]
        return (grey - network(grey * scale) / scale).view_as(noisy).clamp(0, 1)

    return denoise


def diffusion(backbone: Backbone, sigma: float, steps: int, device: torch.device) -> Denoise:
    """Return a denoiser by a diffusion model: from the step whose noise is `sigma` back to the image in `steps` steps.

    The chain has only these steps of the schedule (it is respaced), evenly spread.

    One step: Carlini et al., "(Certified!!) Adversarial Robustness for Free!" (ICLR 2023). Several: Xiao et al.,
    "DensePure: Understanding Diffusion Models for Adversarial Robustness" (ICLR 2023), by a respaced chain.
    """
    network = diffusion_model(backbone, device)
    whole = Schedule.linear()
    start = int(
        torch.searchsorted((1 - whole.alpha_bar) / whole.alpha_bar, torch.tensor((2 * sigma) ** 2, dtype=torch.float64))
    )
    chosen_steps = torch.linspace(0, start, steps + 1).round().long()[1:].unique()  # numbers in the whole schedule
    retained, step_numbers = whole.alpha_bar[chosen_steps], chosen_steps.to(device)
    retained_before = torch.cat([retained.new_ones(1), retained[:-1]])
    schedule = Schedule(1 - retained / retained_before)

    def at(x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        return network(x, step_numbers[step])

    def denoise(noisy: Images, rng: ImageRng) -> Images:
        x = float(retained[-1].sqrt()) * (2 * padded(noisy, network.unit) - 1)
        shape = x.shape[1:]
        for step in reversed(range(len(chosen_steps))):
            x = schedule.back(at, x, step, lambda: rng.normal(*shape))
        return (x[:, :, : noisy.shape[2], : noisy.shape[3]] / 2 + 0.5).clamp(0, 1)

    return denoise


def assets_of(backbone: Backbone, asset: Asset) -> tuple[Asset, ...]:
    """Return the asset of a published denoiser; the embedded one needs none."""
    return (asset,) if backbone == "published" else ()
