"""MPRNet: restoration in several stages, with the weights for denoising.

Zamir et al., "Multi-Stage Progressive Image Restoration" (CVPR 2021). The network comes from the package
spandrel-extra-arches (extra `restorers`); its licence forbids commercial use.
"""

import warnings
from importlib.util import find_spec

import torch
from pydantic import Field

from imharness.errors import Unavailable
from imharness.images import Asset, DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.networks import Backbone, restorer, trained
from imharness_iqa.restorers import SmallDenoiser, padded
from imharness_vision.weights import frozen, state_dict

WEIGHTS = Asset(
    name="mprnet-denoising",
    file="weights/mprnet/model_denoising.pth",
    sha256="",
    licence="academic use only",
    source="https://github.com/swz30/MPRNet (Denoising, pretrained model)",
    address="https://titan.gml-team.ru:5003/fsdownload/Qo5uhUQh4/mprnet_denoise.pth",
)
UNIT = 8


class MprNet(Purification):
    """Denoise with MPRNet; the embedded backbone is a small denoiser instead."""

    info = DefenseInfo(id="harness/mprnet", version="4", group="restoration", differentiable=True, paper="zamir2021")
    backbone: Backbone = Field(default="published", description="Restoration network.")

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights, unless the embedded network is asked for."""
        return (WEIGHTS,) if self.backbone == "published" else ()

    def require(self) -> None:
        """Raise `Unavailable` without the package that has the network, or without the weights."""
        if self.backbone == "published" and find_spec("spandrel_extra_arches") is None:
            remedy = "pip install 'image-privacy-harness[restorers]'"
            raise Unavailable("the package spandrel-extra-arches is not installed", remedy)
        super().require()

    def build(self, device: torch.device) -> Purifier:
        if self.backbone == "embedded":
            network = trained(SmallDenoiser(), "embedded-denoiser", device)
        else:
            _install()
            network = frozen(restorer(state_dict(WEIGHTS, "state_dict"), WEIGHTS, "MPRNet"), device)

        def purify(images: Images, rng: ImageRng) -> Images:
            restored = network(padded(images, UNIT))
            first = restored if isinstance(restored, torch.Tensor) else restored[0]
            return first[:, :, : images.shape[2], : images.shape[3]].clamp(0, 1)

        return purify


def _install() -> None:
    """Make the networks of the extra package known to spandrel."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # the package compiles parts of other networks with a deprecated function
        import spandrel_extra_arches

    spandrel_extra_arches.install(ignore_duplicates=True)


@hookimpl
def components() -> list[Purification]:
    return [MprNet(), MprNet(backbone="embedded")]
