"""Meta-IQA: a ResNet-18 that was taught to learn distortions.

Zhu, Li, Wu, Dong & Shi, "MetaIQA: Deep Meta-learning for No-Reference Image Quality Assessment" (CVPR 2020).
"""

import torch
from torch import nn

from imharness.images import Asset, Images, MetricInfo, NoReferenceMetric, NoReferenceScore, Scores, hookimpl
from imharness_vision.perceptual import normalised
from imharness_vision.weights import Undrawn, fill, folded, frozen, state_dict

WEIGHTS = Asset(
    name="meta-iqa",
    file="weights/meta-iqa/metaiqa.pth",
    sha256="",
    licence="none stated",
    source="https://github.com/zhuhancheng/MetaIQA",
    steps="download metaiqa.pth in a browser from https://drive.google.com/file/d/19U_gHdK3Ld9uI23MABC14Pin9Vfw8AQM/view",
)


class _Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.bn1, self.relu1 = nn.Linear(1000, 1024), nn.BatchNorm1d(1024), nn.PReLU()
        self.fc2, self.bn2, self.relu2 = nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.PReLU()
        self.fc3 = nn.Linear(512, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu1(self.bn1(self.fc1(x)))
        return self.fc3(self.relu2(self.bn2(self.fc2(x)))).sigmoid()


class MetaIqaNet(nn.Module):
    """Images ``(N, 3, H, W)`` -> quality ``(N,)`` in [0, 1]."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models import resnet18

        self.resnet_layer, self.net = resnet18(weights=None), _Head()

    def forward(self, images: Images) -> Scores:
        return self.net(self.resnet_layer(normalised(images))).flatten()


class MetaIqa(NoReferenceMetric):
    """ResNet-18 with meta-learnt knowledge of distortions."""

    info = MetricInfo(
        id="harness/meta-iqa",
        version="1",
        higher_means="better_quality",
        bounds=(0.0, 1.0),
        unit="1",
        architecture="CNN",
        paper="zhu2020",
    )

    def assets(self) -> tuple[Asset, ...]:
        return (WEIGHTS,)

    def build(self, device: torch.device) -> NoReferenceScore:
        weights = state_dict(WEIGHTS)
        with Undrawn():
            network = MetaIqaNet()
        fill(network, WEIGHTS, weights)
        return frozen(folded(network), device)


@hookimpl
def components() -> list[NoReferenceMetric]:
    return [MetaIqa()]
