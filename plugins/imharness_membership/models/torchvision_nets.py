"""ResNet-18 and DenseNet-121 of torchvision, with a stem for small images."""

import torch
from torch import nn

from imharness.data import seeded_init
from imharness.membership import Info, Model, NetworkFactory, hookimpl


class ResNet18(Model):
    """Residual network with 18 layers; a 3x3 stem without pooling, as is usual for 32x32 px."""

    info = Info(id="harness/resnet18", version="1", paper="he2016")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            from torchvision.models import resnet18

            with seeded_init(rng):
                resnet = resnet18(num_classes=classes)
                resnet.conv1 = nn.Conv2d(shape[0], 64, 3, 1, 1, bias=False)
            resnet.maxpool = nn.Identity()
            return resnet.to(device)

        return network


class DenseNet121(Model):
    """Densely connected network with 121 layers; a 3x3 stem without pooling, as is usual for 32x32 px."""

    info = Info(id="harness/densenet121", version="1", paper="huang2017")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> nn.Module:
            from torchvision.models import densenet121

            with seeded_init(rng):
                densenet = densenet121(num_classes=classes)
                densenet.features.conv0 = nn.Conv2d(shape[0], 64, 3, 1, 1, bias=False)
            densenet.features.pool0 = nn.Identity()
            return densenet.to(device)

        return network


@hookimpl
def components() -> list[Model]:
    return [DenseNet121(), ResNet18()]
