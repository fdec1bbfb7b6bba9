"""ResNet-50 and ResNet-152 of torchvision, with another stem for images below 64 px (He et al., CVPR 2016)."""

from typing import Literal

import torch
from pydantic import Field
from torch import nn

from imharness.data import seeded_init
from imharness.gradients import Info, Model, NetworkFactory, hookimpl

SMALL = 64
"""Networks for images whose side is below this, px, have a stem that neither strides nor pools."""


class DeepResNet(Model):
    """Bottleneck residual network with 50 or 152 layers."""

    info = Info(id="harness/deep-resnet", version="1")
    layers: Literal[50, 152] = Field(default=50, description="Number of layers.")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            from torchvision import models

            with seeded_init(rng):
                resnet = getattr(models, f"resnet{self.layers}")(num_classes=classes)
                if shape[1] < SMALL:
                    resnet.conv1, resnet.maxpool = nn.Conv2d(shape[0], 64, 3, 1, 1, bias=False), nn.Identity()
            return resnet.to(device)

        return network


@hookimpl
def components() -> list[Model]:
    return [DeepResNet(), DeepResNet(layers=152)]
