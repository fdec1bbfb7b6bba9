"""DiffPure: add noise to the image and let a diffusion model remove it together with the perturbation.

Nie, Guo, Huang, Xiao, Vahdat & Anandkumar, "Diffusion Models for Adversarial Purification" (ICML 2022), by the DDPM
chain. As in the code of Guardians of Image Quality, the published network sees images of 256x256 px: they are resized
to that size and back.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import Asset, DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.networks import Backbone, loaded
from imharness_iqa.restorers import SmallNoisePredictor, padded
from imharness_vision.diffusion import GuidedUNet, Schedule

WEIGHTS = Asset(
    name="guided-diffusion-256",
    file="weights/guided-diffusion/256x256_diffusion_uncond.pt",
    sha256="a37c32fffd316cd494cf3f35b339936debdc1576dad13fe57c42399a5dbc78b1",
    size=2211383297,
    licence="MIT",
    source="https://github.com/openai/guided-diffusion",
    address="https://openaipublic.blob.core.windows.net/diffusion/jul-2021/256x256_diffusion_uncond.pt",
)
SIZE = 256
"""The side of the images that the published network was trained on, px."""


def diffusion_model(backbone: Backbone, device: torch.device) -> GuidedUNet | SmallNoisePredictor:
    """Return the published diffusion model of 256x256 images, or the embedded one."""
    network = SmallNoisePredictor() if backbone == "embedded" else GuidedUNet()
    return loaded(network, backbone, "embedded-ddpm", WEIGHTS, device=device)


class DiffPure(Purification):
    """Add some steps of noise and remove them with a diffusion model; the embedded backbone is a small model."""

    info = DefenseInfo(
        id="harness/diffpure",
        version="4",
        group="restoration",
        grid={"steps": (5, 10, 20, 30, 50)},
        differentiable=True,
        random=True,
        paper="nie2022",
    )
    steps: int = Field(
        default=5, ge=1, le=1000, description="Noise steps, out of 1000 with variances from 0.0001 to 0.02."
    )
    backbone: Backbone = Field(default="published", description="Diffusion model.")

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights, unless the embedded model is asked for."""
        return (WEIGHTS,) if self.backbone == "published" else ()

    def build(self, device: torch.device) -> Purifier:
        network = diffusion_model(self.backbone, device)
        schedule = Schedule.linear()

        def purify(images: Images, rng: ImageRng) -> Images:
            large = self.backbone == "published"
            x = 2 * (_sized(images, (SIZE, SIZE)) if large else padded(images, network.unit)) - 1
            clean = schedule.purified(network, x, self.steps, lambda: rng.normal(*x.shape[1:]), recomputed=large)
            clean = clean / 2 + 0.5
            clean = _sized(clean, images.shape[2:]) if large else clean[:, :, : images.shape[2], : images.shape[3]]
            return clean.clamp(0, 1)

        return purify


def _sized(images: Images, size: Sequence[int]) -> Images:
    return F.interpolate(images, tuple(size), mode="bilinear", align_corners=False)


@hookimpl
def components() -> list[Purification]:
    return [DiffPure(), DiffPure(backbone="embedded")]
