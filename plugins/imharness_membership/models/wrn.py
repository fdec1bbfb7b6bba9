"""Wide residual networks for images of 32x32 px.

Zagoruyko & Komodakis, "Wide Residual Networks" (BMVC 2016): three groups of (depth - 4) / 6 blocks of two 3x3
convolutions, each behind batch normalisation and ReLU, with 16, 32 and 64 times `width` channels.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field, field_validator
from torch import nn

from imharness.data import seeded_init
from imharness.membership import Info, Model, NetworkFactory, hookimpl
from imharness_membership.image_networks import need_images, whole_blocks

CHANNELS = (16, 32, 64)
"""The channels of the groups at width 1; the stem has as many as the first."""
GROUPS = len(CHANNELS)
SMALLEST = 8
"""The smallest side of an image, px; two groups halve it."""


class Wrn(Model):
    """Wide residual network WRN-depth-width, without dropout; rows are images (C, H, W)."""

    info = Info(id="harness/wrn", version="1", paper="zagoruyko2016")
    depth: int = Field(default=28, ge=10, le=100, description="Number of layers: 4 more than a multiple of 6.")
    width: int = Field(default=2, ge=1, le=20, description="Factor on the channels 16, 32 and 64.")

    @field_validator("depth")
    @classmethod
    def _whole_blocks(cls, depth: int) -> int:
        return whole_blocks(depth, "10, 16 or 28")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits, with He's initialisation."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            need_images(self, shape, SMALLEST)
            with seeded_init(rng):
                wide_resnet = _network(shape[0], classes, (self.depth - 4) // (2 * GROUPS), self.width)
                for module in wide_resnet.modules():
                    if isinstance(module, nn.Conv2d):
                        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            return wide_resnet.to(device)

        return network


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inside), nn.BatchNorm2d(outside)
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        changes = stride != 1 or inside != outside
        self.shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False) if changes else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``(n, outside, h / stride, w / stride)`` for ``(n, inside, h, w)``."""
        active = F.relu(self.norm1(x))
        residual: torch.Tensor = self.conv2(F.relu(self.norm2(self.conv1(active))))
        return residual + (x if self.shortcut is None else self.shortcut(active))


def _network(colours: int, classes: int, blocks: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(colours, CHANNELS[0], 3, 1, 1, bias=False)]
    inside = CHANNELS[0]
    for group, channels in enumerate(CHANNELS):
        for number in range(blocks):
            layers.append(Block(inside, channels * width, 2 if group and not number else 1))
            inside = channels * width
    ends = (nn.BatchNorm2d(inside), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))
    return nn.Sequential(*layers, *ends)


@hookimpl
def components() -> list[Model]:
    return [Wrn()]
