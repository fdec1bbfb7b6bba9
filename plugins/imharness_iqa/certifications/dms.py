"""DMS: the median score of noisy copies behind a convolutional denoiser."""

import torch

from imharness.images import Asset, Certification, DefenseInfo, hookimpl
from imharness_iqa.certifications.drs import Drs
from imharness_iqa.denoisers import DNCNN, Backbone, assets_of, backbone_field, convolutional
from imharness_iqa.smoothing import Denoise, MedianSmoothing


class Dms(MedianSmoothing):
    """Median smoothing with DnCNN between the noise and the metric."""

    info = DefenseInfo(
        id="harness/dms", version="4", group="certified", differentiable=False, random=True, paper="chiang2020"
    )
    backbone: Backbone = backbone_field()

    def noisy(self) -> Certification:
        """Return the noisy pass, which denoised randomised smoothing shares."""
        shared = {name: getattr(self, name) for name in ("sigma", "selection", "samples", "votes", "backbone")}
        return Drs.model_validate(shared)

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights, unless the embedded network is asked for."""
        return assets_of(self.backbone, DNCNN)

    def denoiser(self, device: torch.device) -> Denoise:
        return convolutional(self.backbone, self.sigma, device)


@hookimpl
def components() -> list[Certification]:
    return [Dms(), Dms(backbone="embedded")]
