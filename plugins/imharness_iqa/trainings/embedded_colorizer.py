"""How the weights of harness/embedded-colorizer were trained."""

import torch
import torch.nn.functional as F
from torch import nn

from imharness.data import Images, ImageSet, Info, hookimpl
from imharness.training import WeightTraining
from imharness_iqa.attacks.cadv import EMBEDDED_WIDTH
from imharness_iqa.colorizer import BINS, Colorizer, to_lab, to_rgb
from imharness_iqa.restoration_training import CropTraining
from imharness_iqa.sampling import colourfulness

CLASS_WEIGHT = 0.02
MOST_HINTS = 0.02
"""The largest share of pixels with a hint."""


class EmbeddedColorizerTraining(CropTraining):
    """The small colourisation network, trained with random hints; its gain is that over grey images."""

    info = Info(id="harness/embedded-colorizer", version="3")
    steps = 1600
    margin = 0.5

    def fresh(self) -> nn.Module:
        return Colorizer(EMBEDDED_WIDTH)

    def loss(self, network: nn.Module, clean: Images, rng: torch.Generator) -> torch.Tensor:
        """Return smooth L1 of the colours plus a little of the cross entropy of their bins."""
        inputs, colours = _hinted(clean, rng)
        logits, predicted = network(inputs)
        bins = (F.avg_pool2d(colours, 4).clamp(-1, 1) * (BINS // 2)).round().long() + BINS // 2
        classes = F.cross_entropy(logits, bins[:, 0] * BINS + bins[:, 1])
        return F.smooth_l1_loss(predicted, colours, beta=0.02) + CLASS_WEIGHT * classes

    def gain(self, network: nn.Module, crops: ImageSet) -> tuple[float, float]:
        """Return the mean PSNR of grey images and of recoloured ones, in dB, over the crops that have colours."""
        coloured = (colourfulness(crops.load(list(range(len(crops))))) > 0).nonzero().flatten()
        return super().gain(network, crops.at(coloured.tolist()))

    def pairs(self, network: nn.Module, clean: Images, rng: torch.Generator) -> tuple[Images, Images]:
        """Return grey images and recoloured ones."""
        inputs, colours = _hinted(clean, rng)
        lightness = inputs[:, :1]
        return to_rgb(lightness, torch.zeros_like(colours)), to_rgb(lightness, network(inputs)[1])


def _hinted(clean: Images, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the network's inputs, with hints at a random share of the pixels or none, and the true colours."""
    lightness, colours = to_lab(clean)
    share = MOST_HINTS * torch.rand(len(clean), 1, 1, 1, generator=rng)
    share = share * (torch.rand(len(clean), 1, 1, 1, generator=rng) < 0.8)
    mask = (torch.rand(lightness.shape, generator=rng) < share).float()
    return torch.cat([lightness, mask * colours, mask], dim=1), colours


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedColorizerTraining()]
