"""ResNet-50 that starts from ImageNet, as Song & Mittal fine-tune one on Car196 (USENIX Security 2021, appendix A)."""

import copy

import torch
from torch import nn

from imharness.data import seeded_init
from imharness.errors import UsageError
from imharness.membership import Asset, Info, Model, NetworkFactory, hookimpl
from imharness_vision.weights import Undrawn, fill, state_dict

WEIGHTS = Asset(
    name="resnet50-imagenet",
    file="weights/torchvision/resnet50-0676ba61.pth",
    sha256="0676ba61",
    licence="BSD-3-Clause (torchvision)",
    source="https://pytorch.org/vision",
    address="https://download.pytorch.org/models/resnet50-0676ba61.pth",
)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""The mean and the standard deviation of ImageNet's colours in [0, 1], with which the weights were trained."""


class Standardised(nn.Module):
    """The first layer of a network: standardises images in [0, 1] by ImageNet's mean and standard deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(STD)[:, None, None], persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return images ``(n, 3, h, w)``; the colours of ImageNet would have mean 0 and standard deviation 1."""
        standardised: torch.Tensor = (images - self.mean) / self.std
        return standardised


class FineTuned(Model):
    """ResNet-50 with ImageNet's weights and a new last layer; all layers are trained. Rows are colour images."""

    info = Info(id="harness/fine-tuned-resnet50", version="1", paper="he2016")
    opt_in = True

    def assets(self) -> tuple[Asset, ...]:
        """Return the weights that training starts from."""
        return (WEIGHTS,)

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits; only the last layer depends on the generator."""
        from torchvision.models import resnet50

        with Undrawn():
            pretrained = resnet50(weights=None)
        fill(pretrained, WEIGHTS, state_dict(WEIGHTS))

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            if len(shape) != 3 or shape[0] != len(MEAN):
                raise UsageError(f"{self.label}: rows must be colour images, got shape {tuple(shape)}.")
            resnet = copy.deepcopy(pretrained)
            with seeded_init(rng):
                resnet.fc = nn.Linear(resnet.fc.in_features, classes)
            return nn.Sequential(Standardised(), resnet).to(device)

        return network


@hookimpl
def components() -> list[Model]:
    return [FineTuned()]
