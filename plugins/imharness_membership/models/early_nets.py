"""AlexNet and VGG-19 as they are trained on images of 32x32 px: the convolutions, and one linear layer behind them.

Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014); Simonyan & Zisserman, "Very Deep
Convolutional Networks for Large-Scale Image Recognition" (ICLR 2015), configuration E with batch normalisation.
Song & Mittal (USENIX Security 2021, section 4.2.1) attack both, of no stated depth.
"""

import torch
from torch import nn

from imharness.data import seeded_init
from imharness.membership import Info, Model, NetworkFactory, hookimpl
from imharness_membership.image_networks import need_images

SMALLEST = 32
"""The smallest side of an image, px; five times it is halved."""


class AlexNet(Model):
    """Five convolutions with max pooling, the first of 11x11 with a stride of 4; rows are images (C, H, W)."""

    info = Info(id="harness/alexnet", version="1", paper="krizhevsky2014")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            need_images(self, shape, SMALLEST)
            with seeded_init(rng):
                return nn.Sequential(
                    nn.Conv2d(shape[0], 64, 11, 4, 5),
                    nn.ReLU(),
                    nn.MaxPool2d(2),
                    nn.Conv2d(64, 192, 5, 1, 2),
                    nn.ReLU(),
                    nn.MaxPool2d(2),
                    nn.Conv2d(192, 384, 3, 1, 1),
                    nn.ReLU(),
                    nn.Conv2d(384, 256, 3, 1, 1),
                    nn.ReLU(),
                    nn.Conv2d(256, 256, 3, 1, 1),
                    nn.ReLU(),
                    nn.MaxPool2d(2),
                    *_end(256, classes),
                ).to(device)

        return network


class Vgg19(Model):
    """Sixteen 3x3 convolutions, each with batch normalisation, and max pooling; rows are images (C, H, W)."""

    info = Info(id="harness/vgg19", version="2", paper="simonyan2015")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            from torchvision.models.vgg import cfgs, make_layers

            need_images(self, shape, SMALLEST)
            with seeded_init(rng):
                features = make_layers(cfgs["E"], batch_norm=True)  # without linear layers of 120 million weights
                if shape[0] != features[0].in_channels:
                    features[0] = nn.Conv2d(shape[0], features[0].out_channels, 3, 1, 1)
                for layer in features:
                    if isinstance(layer, nn.Conv2d):  # as torchvision does
                        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                        layer.bias = nn.Parameter(torch.zeros_like(layer.weight[:, 0, 0, 0]))
                return nn.Sequential(*features, *_end(512, classes)).to(device)

        return network


def _end(channels: int, classes: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)


@hookimpl
def components() -> list[Model]:
    return [AlexNet(), Vgg19()]
