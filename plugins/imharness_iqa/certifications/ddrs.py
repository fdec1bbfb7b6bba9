"""DDRS: randomised smoothing behind one step of a diffusion model."""

import torch

from imharness.images import Asset, Certification, DefenseInfo, hookimpl
from imharness_iqa.defenses.diffpure import WEIGHTS
from imharness_iqa.denoisers import Backbone, assets_of, backbone_field, diffusion
from imharness_iqa.smoothing import ClassSmoothing, Denoise


class Ddrs(ClassSmoothing):
    """Smoothing with one step of a diffusion model between the noise and the metric."""

    info = DefenseInfo(
        id="harness/ddrs", version="3", group="certified", differentiable=False, random=True, paper="carlini2023"
    )
    backbone: Backbone = backbone_field()

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights, unless the embedded network is asked for."""
        return assets_of(self.backbone, WEIGHTS)

    def denoiser(self, device: torch.device) -> Denoise:
        return diffusion(self.backbone, self.sigma, 1, device)


@hookimpl
def components() -> list[Certification]:
    return [Ddrs(), Ddrs(backbone="embedded")]
