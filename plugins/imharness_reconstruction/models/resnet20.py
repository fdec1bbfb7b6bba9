"""The residual network with 20 layers for 32x32 px (He et al., CVPR 2016, section 4.2)."""

import torch
from pydantic import Field

from imharness.data import seeded_init
from imharness.gradients import Info, Model, NetworkFactory, hookimpl
from imharness_vision.cifar_resnet import CifarResNet


class ResNet20(Model):
    """Residual network with 20 layers, made for 32x32 px."""

    info = Info(id="harness/resnet20", version="1")
    width: int = Field(
        default=16, ge=2, le=256, description="Channels of the first stage; the others have 2 and 4 times as many."
    )

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks for colour images."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> torch.nn.Module:
            with seeded_init(rng):
                return CifarResNet(3, classes, self.width).to(device)

        return network


@hookimpl
def components() -> list[Model]:
    return [ResNet20()]
