"""A small convolutional classifier. Untrained, it stands for the first round of federated learning, the worst case."""

from typing import Literal

import torch
from pydantic import Field

from imharness.data import seeded_init
from imharness.gradients import Info, Model, NetworkFactory, hookimpl

ACTIVATIONS = {"sigmoid": torch.nn.Sigmoid, "relu": torch.nn.ReLU}


class LeNet(Model):
    """LeNet after the twice-differentiable one of DLG: four 5x5 convolutions and one linear layer.

    The code that Zhu et al. (NeurIPS 2019) published has three convolutions.
    """

    info = Info(id="harness/lenet", version="1")
    channels: int = Field(default=12, ge=1, le=256, description="Channels of each convolution.")
    activation: Literal["sigmoid", "relu"] = Field(default="sigmoid", description="Activation after each convolution.")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory. Weights are uniform in [-0.5, 0.5] for sigmoid (as published), and torch's for ReLU."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> torch.nn.Module:
            strides, layers, width = (2, 2, 1, 1), [], shape[0]
            with seeded_init(rng):
                for stride in strides:
                    layers += [torch.nn.Conv2d(width, self.channels, 5, stride, 2), ACTIVATIONS[self.activation]()]
                    width = self.channels
                features = torch.nn.Sequential(*layers, torch.nn.Flatten())
                size = features(torch.zeros(1, *shape)).shape[1]
                whole = torch.nn.Sequential(features, torch.nn.Linear(size, classes))
                if self.activation == "sigmoid":
                    for parameter in whole.parameters():
                        torch.nn.init.uniform_(parameter, -0.5, 0.5)
            return whole.to(device).eval()

        return network


@hookimpl
def components() -> list[Model]:
    return [LeNet(), LeNet(activation="relu", channels=16)]
