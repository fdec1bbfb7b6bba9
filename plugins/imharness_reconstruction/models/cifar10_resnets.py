"""The published ResNet-20, 32 and 56 for CIFAR-10 (github akamaster/pytorch_resnet_cifar10)."""

from typing import Literal

import torch
from pydantic import Field

from imharness.errors import UsageError
from imharness.gradients import Asset, Info, Model, NetworkFactory, hookimpl
from imharness_vision.cifar_resnet import WEIGHTS, published


class Cifar10ResNet(Model):
    """Residual network for CIFAR-10 with its published weights."""

    info = Info(id="harness/cifar10-resnet", version="1")
    trained = True
    depth: Literal[20, 32, 56] = Field(default=20, description="Number of layers.")

    def assets(self) -> tuple[Asset, ...]:
        return (WEIGHTS[f"resnet{self.depth}"],)

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of the published network, which takes 32x32 px and has ten classes."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> torch.nn.Module:
            if tuple(shape) != (3, 32, 32) or classes != 10:
                raise UsageError(f"{self.label} takes (3, 32, 32) and 10 classes, not {tuple(shape)} and {classes}.")
            return published(f"resnet{self.depth}", device)

        return network


@hookimpl
def components() -> list[Model]:
    return [Cifar10ResNet(), Cifar10ResNet(depth=32), Cifar10ResNet(depth=56)]
