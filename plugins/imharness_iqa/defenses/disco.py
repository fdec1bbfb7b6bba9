"""DISCO: a network trained on attacked images predicts every pixel from its neighbourhood.

Ho & Vasconcelos, "DISCO: Adversarial Defense with Local Implicit Functions" (NeurIPS 2022).
"""

import torch

from imharness.images import Asset, DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl
from imharness_iqa.restorers import LocalImplicit
from imharness_vision.weights import frozen, state_dict

WEIGHTS = Asset(
    name="disco-pgd",
    file="weights/disco/disco_pgd.pth",
    sha256="",
    licence="MIT",
    source="https://github.com/msu-video-group/adversarial-defenses-for-iqa (metrics/defences/disco)",
)


class Disco(Purification):
    """Local implicit function that predicts every pixel anew."""

    info = DefenseInfo(id="harness/disco", version="1", group="restoration", differentiable=True, paper="ho2022")

    def assets(self) -> tuple[Asset, ...]:
        """Return the published weights."""
        return (WEIGHTS,)

    def build(self, device: torch.device) -> Purifier:
        network = LocalImplicit()
        network.load_state_dict(state_dict(WEIGHTS, "model", "sd"), strict=True)
        network = frozen(network, device)

        def purify(images: Images, rng: ImageRng) -> Images:
            return network(images).clamp(0, 1)

        return purify


@hookimpl
def components() -> list[Purification]:
    return [Disco()]
