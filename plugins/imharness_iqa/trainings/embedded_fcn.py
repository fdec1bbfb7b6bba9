"""How the weights of harness/embedded-fcn were trained."""

from functools import cache

import torch
from torch import nn

from imharness.data import Images, Info, WeightTraining, hookimpl
from imharness_iqa.attacks.cadv import EMBEDDED_WIDTH
from imharness_iqa.colorizer import Colorizer, to_lab, to_rgb
from imharness_iqa.networks import trained
from imharness_iqa.restoration_training import RestorerTraining
from imharness_iqa.restorers import ColourFilter

HINTED, WRONG = 0.01, 0.3
"""Share of the pixels with a hint, and the largest standard deviation of a hint's error, in scaled colour units."""


class EmbeddedFcnTraining(RestorerTraining):
    """The colour filter, trained on images recoloured through the embedded colourisation network."""

    info = Info(id="harness/embedded-fcn", version="2")
    steps = 400
    batch = 8
    margin = 0.5

    def fresh(self) -> nn.Module:
        return ColourFilter(residual=True)

    @torch.no_grad()
    def degraded(self, clean: Images, rng: torch.Generator) -> Images:
        """Recolour images from a few hints, which are wrong by another amount for each image."""
        lightness, colours = to_lab(clean)
        mask = (torch.rand(lightness.shape, generator=rng) < HINTED).float()
        wrong = WRONG * torch.rand(len(clean), 1, 1, 1, generator=rng) * torch.randn(colours.shape, generator=rng)
        return to_rgb(lightness, recolouring()(torch.cat([lightness, mask * (colours + wrong), mask], dim=1))[1])


@cache
def recolouring() -> nn.Module:
    """Return the network through which images are recoloured."""
    return trained(Colorizer(EMBEDDED_WIDTH), "embedded-colorizer", torch.device("cpu"))


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedFcnTraining()]
