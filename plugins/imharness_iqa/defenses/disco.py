"""DISCO: a network trained on attacked images predicts every pixel from its neighbourhood.

Ho & Vasconcelos, "DISCO: Adversarial Defense with Local Implicit Functions" (NeurIPS 2022).
"""

import torch
from pydantic import Field

from imharness.images import Asset, DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.networks import Backbone, loaded
from imharness_iqa.restorers import LocalImplicit

WEIGHTS = Asset(
    name="disco-pgd",
    file="weights/disco/disco_pgd.pth",
    sha256="",
    licence="MIT",
    source="https://github.com/msu-video-group/adversarial-defenses-for-iqa (metrics/defences/disco)",
    address="https://titan.gml-team.ru:5003/fsdownload/zBJ7GXlz0/disco_pgd.pth",
)
UNUSED = ("encoder.sub_mean.", "encoder.add_mean.")
"""Prefixes of the names of the weights of two layers that every EDSR has and that the published encoder never calls."""
EMBEDDED = {"width": 8, "blocks": 2, "hidden": 16, "layers": 2, "residual": True}


class Disco(Purification):
    """A local implicit function that predicts every pixel anew; the embedded backbone is a smaller network."""

    info = DefenseInfo(id="harness/disco", version="5", group="restoration", differentiable=True, paper="ho2022")
    backbone: Backbone = Field(
        default="published", description="Network: the published weights, or the smaller embedded one."
    )

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights, unless the embedded network is asked for."""
        return (WEIGHTS,) if self.backbone == "published" else ()

    def build(self, device: torch.device) -> Purifier:
        sizes = EMBEDDED if self.backbone == "embedded" else {}
        network = LocalImplicit(**sizes)
        keys = ("model", "sd")  # lead to the tensors in the published file
        network = loaded(network, self.backbone, "embedded-disco", WEIGHTS, *keys, device=device, unused=UNUSED)

        def purify(images: Images, rng: ImageRng) -> Images:
            return network(images).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Disco(), Disco(backbone="embedded")]
