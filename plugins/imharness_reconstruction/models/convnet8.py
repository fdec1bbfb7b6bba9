"""The eight-layer convolutional network of Gao et al., CVPR 2021, section 5.1 (the authors of ATS)."""

import torch
from pydantic import Field
from torch import nn

from imharness.data import seeded_init
from imharness.gradients import Info, Model, NetworkFactory, hookimpl


class ConvNet8(Model):
    """Eight 3x3 convolutions with batch norm and ReLU, pooled three times; one linear layer."""

    info = Info(id="harness/convnet8", version="1")
    width: int = Field(
        default=64, ge=1, le=512, description="Channels of the first convolution; the last one has four times as many."
    )

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks for images whose sides have at least 8 px."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            w = self.width
            plan = (w, 2 * w, 2 * w, 4 * w, 4 * w, 4 * w, 4 * w, 4 * w)
            layers: list[nn.Module] = []
            with seeded_init(rng):
                for number, (ins, outs) in enumerate(zip((shape[0], *plan[:-1]), plan, strict=True)):
                    layers += [nn.Conv2d(ins, outs, 3, 1, 1), nn.BatchNorm2d(outs), nn.ReLU()]
                    if number in (2, 5, 7):
                        layers.append(nn.MaxPool2d(2))
                layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16 * w, classes)]
                return nn.Sequential(*layers).to(device)

        return network


@hookimpl
def components() -> list[Model]:
    return [ConvNet8()]
