"""A small convolutional classifier for images."""

import torch
from pydantic import Field
from torch import nn

from imharness.data import seeded_init
from imharness.membership import Info, Model, NetworkFactory, hookimpl


class Cnn(Model):
    """Two convolutions with max pooling and two fully connected layers; rows are images (C, H, W)."""

    info = Info(id="harness/cnn", version="1")
    width: int = Field(
        default=32, ge=1, le=1024, description="Channels of the first convolution; the second has twice as many."
    )

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            channels, height, width = shape
            with seeded_init(rng):
                return nn.Sequential(
                    nn.Conv2d(channels, self.width, 3, 1, 1),
                    nn.ReLU(),
                    nn.MaxPool2d(2),
                    nn.Conv2d(self.width, 2 * self.width, 3, 1, 1),
                    nn.ReLU(),
                    nn.MaxPool2d(2),
                    nn.Flatten(),
                    nn.Linear(2 * self.width * (height // 4) * (width // 4), 128),
                    nn.ReLU(),
                    nn.Linear(128, classes),
                ).to(device)

        return network


@hookimpl
def components() -> list[Model]:
    return [Cnn()]
