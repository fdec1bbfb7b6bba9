"""DenseNet-BC for images of 32x32 px.

Huang, Liu, van der Maaten & Weinberger, "Densely Connected Convolutional Networks" (CVPR 2017), section 3: three dense
blocks of (depth - 4) / 6 layers, each a 1x1 and a 3x3 convolution that adds `growth` channels, with transitions that
halve channels and sides; the stem has twice `growth` channels.
"""

import torch
from pydantic import Field, field_validator
from torch import nn

from imharness.data import seeded_init
from imharness.membership import Info, Model, NetworkFactory, hookimpl
from imharness_membership.image_networks import need_images, whole_blocks

BLOCKS = 3
SMALLEST = 8
"""The smallest side of an image, px; two transitions halve it."""


class DenseNetBc(Model):
    """DenseNet-BC without dropout; rows are images (C, H, W).

    Song & Mittal (USENIX Security 2021, section 3.3.4) attack a public one with a test accuracy of 83.00 % on
    CIFAR-100. Of the two in that repository, the default here has 82.83 %, and the one of depth 100 and growth 12
    has 77.12 %.
    """

    info = Info(id="harness/densenet-bc", version="1", paper="huang2017")
    depth: int = Field(default=190, ge=10, le=250, description="Number of layers: 4 more than a multiple of 6.")
    growth: int = Field(default=40, ge=2, le=64, description="Channels that a layer adds.")

    @field_validator("depth")
    @classmethod
    def _whole_blocks(cls, depth: int) -> int:
        return whole_blocks(depth, "40, 100 or 190")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits, with He's initialisation."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            from torchvision.models import DenseNet

            need_images(self, shape, SMALLEST)
            layers = ((self.depth - 4) // (2 * BLOCKS),) * BLOCKS
            with seeded_init(rng):
                densenet = DenseNet(self.growth, layers, 2 * self.growth, num_classes=classes)  # type: ignore[arg-type]
                densenet.features.conv0 = nn.Conv2d(shape[0], 2 * self.growth, 3, 1, 1, bias=False)
                nn.init.kaiming_normal_(densenet.features.conv0.weight)
            for name in ("norm0", "relu0", "pool0"):  # parts of the stem for large images
                setattr(densenet.features, name, nn.Identity())
            return densenet.to(device)

        return network


@hookimpl
def components() -> list[Model]:
    return [DenseNetBc()]
