"""DRS: randomised smoothing behind a convolutional denoiser."""

import torch

from imharness.images import Asset, Certification, DefenseInfo, hookimpl
from imharness_iqa.denoisers import DNCNN, Backbone, assets_of, backbone_field, convolutional
from imharness_iqa.smoothing import ClassSmoothing, Denoise


class Drs(ClassSmoothing):
    """Denoised smoothing: DnCNN between the noise and the metric."""

    info = DefenseInfo(
        id="harness/drs", version="4", group="certified", differentiable=False, random=True, paper="salman2020"
    )
    backbone: Backbone = backbone_field()

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights, unless the embedded network is asked for."""
        return assets_of(self.backbone, DNCNN)

    def denoiser(self, device: torch.device) -> Denoise:
        return convolutional(self.backbone, self.sigma, device)


@hookimpl
def components() -> list[Certification]:
    return [Drs(), Drs(backbone="embedded")]
