"""FCN: a small filter against attacks that change colours.

Gushchin et al., "Adversarial purification for no-reference image-quality metrics: applicability study and new methods"
(2024).
"""

import torch

from imharness.images import Asset, DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.restorers import ColourFilter
from imharness_vision.weights import fill, frozen, state_dict

WEIGHTS = Asset(
    name="fcn-mse",
    file="weights/fcn/fcn_mse.pth",
    sha256="",
    licence="none stated",
    source="https://github.com/msu-video-group/adversarial-defenses-for-iqa (metrics/defences/fcn)",
    address="https://titan.gml-team.ru:5003/fsdownload/vbKqFGe3o/fcn_mse.pth",
)


class Fcn(Purification):
    """Three convolutions trained on recoloured images."""

    info = DefenseInfo(id="harness/fcn", version="1", group="restoration", differentiable=True, paper="gushchin2024")

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights."""
        return (WEIGHTS,)

    def build(self, device: torch.device) -> Purifier:
        network = ColourFilter()
        fill(network, WEIGHTS, state_dict(WEIGHTS, "model"))
        network = frozen(network, device)

        def purify(images: Images, rng: ImageRng) -> Images:
            return network(images).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Fcn()]
