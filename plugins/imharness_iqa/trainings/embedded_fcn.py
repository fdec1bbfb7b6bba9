"""How the weights of harness/embedded-fcn were trained."""

import torch

from imharness.data import Images, Info, Train, WeightTraining, hookimpl
from imharness_iqa.attacks.cadv import EMBEDDED_WIDTH
from imharness_iqa.colorizer import Colorizer, to_lab, to_rgb
from imharness_iqa.networks import trained
from imharness_iqa.restoration_training import CropTraining, restoring
from imharness_iqa.restorers import ColourFilter


class EmbeddedFcnTraining(CropTraining):
    """The colour filter, trained on images recoloured through the embedded colourisation network."""

    info = Info(id="harness/embedded-fcn", version="1")

    def build(self, device: torch.device) -> Train:
        return restoring(ColourFilter, recolouring(), steps=800)


def recolouring():
    """Return a function that recolours images from a few wrong hints."""
    network = trained(Colorizer(EMBEDDED_WIDTH), "embedded-colorizer", torch.device("cpu"))

    def recolour(clean: Images, rng: torch.Generator) -> Images:
        lightness, colours = to_lab(clean)
        mask = (torch.rand(lightness.shape, generator=rng) < 0.01).float()
        wrong = 0.3 * torch.randn(colours.shape, generator=rng)
        return to_rgb(lightness, network(torch.cat([lightness, mask * (colours + wrong), mask], dim=1))[1])

    return recolour


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedFcnTraining()]
