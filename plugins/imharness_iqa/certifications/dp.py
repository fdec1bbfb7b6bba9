"""DP: randomised smoothing behind several steps of a diffusion model, with votes.

The defaults cost two passes of the network per copy, as in the scripts of the authors of Guardians of Image Quality
(repository katiashh/certified-iqa-defenses, ``DensePure-master/calc_dp_*.py``): two steps, one seed, no vote. In their
table 3, DP takes 71 s longer than plain smoothing and DDRS, with its one pass, 28.7 s: 2.5 passes.
"""

import torch
from pydantic import Field

from imharness.images import Asset, Certification, DefenseInfo, hookimpl
from imharness_iqa.defenses.diffpure import WEIGHTS
from imharness_iqa.denoisers import Backbone, assets_of, backbone_field, diffusion
from imharness_iqa.smoothing import ClassSmoothing, Denoise


class Dp(ClassSmoothing):
    """DensePure: each copy is denoised several times by several diffusion steps, and the majority class counts."""

    info = DefenseInfo(
        id="harness/dp", version="3", group="certified", differentiable=False, random=True, paper="xiao2023"
    )
    backbone: Backbone = backbone_field()
    votes: int = Field(default=1, ge=1, le=101, description="Denoised versions of each copy that vote on its class.")
    steps: int = Field(default=2, ge=1, le=1000, description="Denoising steps.")

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights, unless the embedded network is asked for."""
        return assets_of(self.backbone, WEIGHTS)

    def denoiser(self, device: torch.device) -> Denoise:
        return diffusion(self.backbone, self.sigma, self.steps, device)


@hookimpl
def components() -> list[Certification]:
    return [Dp(), Dp(backbone="embedded")]
