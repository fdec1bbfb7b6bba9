"""How the weights of harness/embedded-colorizer were trained."""

import torch
import torch.nn.functional as F

from imharness.data import Images, Info, Train, WeightTraining, hookimpl
from imharness_iqa.attacks.cadv import EMBEDDED_WIDTH
from imharness_iqa.colorizer import BINS, Colorizer, to_lab
from imharness_iqa.restoration_training import CropTraining, training

CLASS_WEIGHT = 0.02


class EmbeddedColorizerTraining(CropTraining):
    """The small colourisation network, trained with random hints."""

    info = Info(id="harness/embedded-colorizer", version="1")

    def build(self, device: torch.device) -> Train:
        return training(lambda: Colorizer(EMBEDDED_WIDTH), colour_loss, 800, colour_card)


def hinted(clean: Images, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the network's inputs with a random share of hints, up to 2 %, and the true colours."""
    lightness, colours = to_lab(clean)
    share = (
        0.02 * torch.rand(len(clean), 1, 1, 1, generator=rng) * (torch.rand(len(clean), 1, 1, 1, generator=rng) < 0.8)
    )
    mask = (torch.rand(lightness.shape, generator=rng) < share).float()
    return torch.cat([lightness, mask * colours, mask], dim=1), colours


def colour_loss(network: torch.nn.Module, clean: Images, rng: torch.Generator) -> torch.Tensor:
    """Return smooth L1 of the colours plus a little of the cross entropy of their bins."""
    inputs, colours = hinted(clean, rng)
    logits, found = network(inputs)
    bins = (F.avg_pool2d(colours, 4).clamp(-1, 1) * (BINS // 2)).round().long() + BINS // 2
    classes = F.cross_entropy(logits, bins[:, 0] * BINS + bins[:, 1])
    return F.smooth_l1_loss(found, colours, beta=0.02) + CLASS_WEIGHT * classes


def colour_card(network: torch.nn.Module, crops: Images) -> dict[str, float]:
    """Return the mean absolute error of the colours with hints, and that of grey images."""
    inputs, colours = hinted(crops, torch.Generator().manual_seed(0))
    error = 110 * float((network(inputs)[1] - colours).abs().mean())
    return {"test_error_ab": round(error, 3), "test_error_ab_of_grey": round(110 * float(colours.abs().mean()), 3)}


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedColorizerTraining()]
