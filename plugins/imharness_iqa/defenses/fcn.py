"""FCN: a small filter against attacks that change colours.

Gushchin et al., "Adversarial purification for no-reference image-quality metrics: applicability study and new methods"
(2024).
"""

import torch
from pydantic import Field

from imharness.images import Asset, DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.networks import Backbone, loaded
from imharness_iqa.restorers import ColourFilter

WEIGHTS = Asset(
    name="fcn-mse",
    file="weights/fcn/fcn_mse.pth",
    sha256="",
    licence="none stated",
    source="https://github.com/msu-video-group/adversarial-defenses-for-iqa (metrics/defences/fcn)",
)


class Fcn(Purification):
    """Three convolutions trained on recoloured images; the embedded weights were trained for this package."""

    info = DefenseInfo(id="harness/fcn", version="2", group="restoration", differentiable=True, paper="gushchin2024")
    backbone: Backbone = Field(default="published", description="Weights of the filter.")

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights, unless the embedded ones are asked for."""
        return (WEIGHTS,) if self.backbone == "published" else ()

    def build(self, device: torch.device) -> Purifier:
        fresh = ColourFilter(residual=self.backbone == "embedded")
        network = loaded(fresh, self.backbone, "embedded-fcn", WEIGHTS, "model", device=device)

        def purify(images: Images, rng: ImageRng) -> Images:
            return network(images).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Fcn(), Fcn(backbone="embedded")]
