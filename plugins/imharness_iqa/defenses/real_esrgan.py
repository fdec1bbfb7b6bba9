"""Real-ESRGAN: enlarge four times with a network trained on real degradations, and shrink back.

Wang, Xie, Dong & Shan, "Real-ESRGAN: Training Real-World Blind Super-Resolution with Pure Synthetic Data" (ICCVW 2021),
the small general network; its two sets of weights are blended, by default one part of the general ones and four of the
denoising ones.
"""

from importlib.util import find_spec

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.errors import Unavailable
from imharness.images import Asset, DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.networks import Backbone, restorer, trained
from imharness_iqa.restorers import SmallUpscaler
from imharness_vision.weights import frozen, state_dict

RELEASE = "https://github.com/xinntao/Real-ESRGAN/releases/download/v0.2.5.0"


def _asset(name: str, sha256: str) -> Asset:
    return Asset(
        name=name,
        file=f"weights/real-esrgan/{name}.pth",
        sha256=sha256,
        size=4885111,
        licence="BSD-3-Clause",
        source="https://github.com/xinntao/Real-ESRGAN",
        address=f"{RELEASE}/{name}.pth",
    )


GENERAL = _asset("realesr-general-x4v3", "8dc7edb9ac80ccdc30c3a5dca6616509367f05fbc184ad95b731f05bece96292")
DENOISING = _asset("realesr-general-wdn-x4v3", "1641f8c4464b9f097c9fdda5589273713f67cf59f3d909e0bd688f0cee269dca")


class RealEsrgan(Purification):
    """Enlarge four times with Real-ESRGAN and shrink back; the embedded upscaler enlarges twice."""

    info = DefenseInfo(
        id="harness/real-esrgan", version="5", group="restoration", differentiable=True, paper="wang2021"
    )
    backbone: Backbone = Field(default="published", description="Upscaling network.")
    denoising: float = Field(default=0.2, ge=0, le=1, description="Weight of the general network in the blend.")

    def assets(self) -> tuple[Asset, ...]:
        """Return both published sets of weights, unless the embedded network is asked for."""
        return (GENERAL, DENOISING) if self.backbone == "published" else ()

    def require(self) -> None:
        """Raise `Unavailable` without the weights or the package that has the network."""
        if self.backbone == "published" and find_spec("spandrel") is None:
            raise Unavailable("the package spandrel is not installed", "pip install 'image-privacy-harness[restorers]'")
        super().require()

    def build(self, device: torch.device) -> Purifier:
        if self.backbone == "embedded":
            network = trained(SmallUpscaler(), "embedded-upscaler", device)
        else:
            general, other = state_dict(GENERAL, "params"), state_dict(DENOISING, "params")
            blend = {k: self.denoising * v + (1 - self.denoising) * other[k] for k, v in general.items()}
            network = frozen(restorer(blend, GENERAL, "Compact"), device)

        def purify(images: Images, rng: ImageRng) -> Images:
            large = network(images).clamp(0, 1)
            return F.interpolate(large, images.shape[2:], mode="bicubic", antialias=True).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [RealEsrgan(), RealEsrgan(backbone="embedded")]
