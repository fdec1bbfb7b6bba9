"""The residual networks for 32x32 px of He et al., with shortcuts that pad instead of projecting (option A)."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from imharness.data import Asset, Images, generator, seeded_init
from imharness_vision.perceptual import normalised
from imharness_vision.weights import fill, frozen, state_dict

DEPTHS = {  # name -> blocks of each stage, file of the published weights, and the first digits of its sha256
    "resnet20": (3, "resnet20-12fca82f.th", "12fca82f"),
    "resnet32": (5, "resnet32-d509ac18.th", "d509ac18"),
    "resnet56": (9, "resnet56-4bfd9763.th", "4bfd9763"),
}
WEIGHTS = {
    name: Asset(
        name=f"cifar10-{name}",
        file=f"weights/cifar10-resnet/{file}",
        sha256=digest,
        licence="BSD-2-Clause",
        source="https://github.com/akamaster/pytorch_resnet_cifar10",
        address=f"https://github.com/akamaster/pytorch_resnet_cifar10/raw/master/pretrained_models/{file}",
    )
    for name, (_, file, digest) in DEPTHS.items()
}


class _Block(nn.Module):
    def __init__(self, ins: int, outs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(ins, outs, 3, stride, 1, bias=False), nn.BatchNorm2d(outs)
        self.conv2, self.bn2 = nn.Conv2d(outs, outs, 3, 1, 1, bias=False), nn.BatchNorm2d(outs)
        self.stride, self.padding = stride, (outs - ins) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.padding, self.padding))
        return F.relu(out + shortcut)


class CifarResNet(nn.Module):
    """Images ``(N, 3, 32, 32)`` in [0, 1] -> logits ``(N, classes)``.

    He, Zhang, Ren & Sun, "Deep Residual Learning for Image Recognition" (CVPR 2016), section 4.2: 6n + 2 layers.
    """

    def __init__(self, blocks: int, classes: int = 10, width: int = 16) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.layer1, self.layer2, self.layer3 = (
            nn.Sequential(_Block(ins, outs, outs // ins), *(_Block(outs, outs, 1) for _ in range(blocks - 1)))
            for ins, outs in pairwise((width, width, 2 * width, 4 * width))
        )
        self.linear = nn.Linear(4 * width, classes)

    def forward(self, images: Images) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(normalised(images))))
        return self.linear(self.layer3(self.layer2(self.layer1(x))).mean(dim=(2, 3)))


def published(name: str, device: torch.device) -> nn.Module:
    """Return one of the networks with the weights that were trained on CIFAR-10, frozen."""
    with seeded_init(generator(0)):  # the global state is left as it is
        network = CifarResNet(DEPTHS[name][0])
    fill(network, WEIGHTS[name], state_dict(WEIGHTS[name], "state_dict"))
    return frozen(network, device)
