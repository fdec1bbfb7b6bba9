"""KonCept512: an Inception-ResNet-v2 trained on KonIQ-10k.

Hosu, Lin, Sziranyi & Saupe, "KonIQ-10k: An Ecologically Valid Database for Deep Learning of Blind Image Quality
Assessment" (IEEE TIP 2020); the network of Szegedy, Ioffe, Vanhoucke & Alemi (AAAI 2017). As in the published
benchmark, images are resized to 512x384 (height x width).
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from imharness.images import Asset, Images, MetricInfo, NoReferenceScore, Scores, hookimpl
from imharness.training import TrainableMetric, TuningPlan
from imharness_vision.weights import Undrawn, fill, folded, frozen, state_dict

WEIGHTS = Asset(
    name="koncept512",
    file="weights/koncept512/KonCept512.pth",
    sha256="",
    licence="MIT",
    source="https://github.com/ZhengyuZhao/koniq-PyTorch",
    steps="download KonCept512.pth in a browser from https://drive.google.com/file/d/1fzFjWMQw4x_6lv3ZOxaqx3qI6I-q3Lrk/view",
)
SIZE = (512, 384)
POOLED = 8
"""The side of the windows over which the last maps are averaged."""
REPEATED = (10, 20, 9)
"""How often each of the three residual blocks stands in a row."""
Kernel = int | tuple[int, int]


class _Conv(nn.Module):
    """Convolution, batch norm, ReLU; "same" padding unless it strides or is not to be `padded`."""

    def __init__(self, ins: int, outs: int, kernel: Kernel, stride: int = 1, padded: bool = True) -> None:
        super().__init__()
        sides = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        padding = tuple(side // 2 for side in sides) if padded and stride == 1 else (0, 0)
        self.conv = nn.Conv2d(ins, outs, sides, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outs, eps=0.001)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.bn(self.conv(x)))


def _chain(ins: int, *layer_shapes: tuple[int, Kernel], last_stride: int = 1) -> nn.Module:
    layers = []
    for number, (outs, kernel) in enumerate(layer_shapes):
        layers.append(_Conv(ins, outs, kernel, last_stride if number == len(layer_shapes) - 1 else 1))
        ins = outs
    return layers[0] if len(layers) == 1 else nn.Sequential(*layers)


class _Branches(nn.Module):
    """Branches side by side."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        for number, branch in enumerate(branches):
            self.add_module(f"branch{number}", branch)

    def joined(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for name, branch in self.named_children() if name.startswith("branch")], dim=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.joined(x)


class _Residual(_Branches):
    """Branches, a 1x1 convolution and a shortcut."""

    def __init__(self, *branches: nn.Module, ins: int, outs: int, scale: float, last: bool = False) -> None:
        super().__init__(*branches)
        self.conv2d, self.scale, self.last = nn.Conv2d(ins, outs, 1), scale, last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.scale * self.conv2d(self.joined(x))
        return x if self.last else F.relu(x)


def _block35() -> nn.Module:
    chains = (_chain(320, (32, 1)), _chain(320, (32, 1), (32, 3)), _chain(320, (32, 1), (48, 3), (64, 3)))
    return _Residual(*chains, ins=128, outs=320, scale=0.17)


def _block17() -> nn.Module:
    chains = (_chain(1088, (192, 1)), _chain(1088, (128, 1), (160, (1, 7)), (192, (7, 1))))
    return _Residual(*chains, ins=384, outs=1088, scale=0.10)


def _block8(scale: float = 0.20, last: bool = False) -> nn.Module:
    chains = (_chain(2080, (192, 1)), _chain(2080, (192, 1), (224, (1, 3)), (256, (3, 1))))
    return _Residual(*chains, ins=448, outs=2080, scale=scale, last=last)


def inception_resnet_v2() -> nn.Sequential:
    """Return the convolutional part, in the order in which its published weights are numbered."""
    pooled = nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), _Conv(192, 64, 1))
    mixed_5b = _Branches(
        _chain(192, (96, 1)), _chain(192, (48, 1), (64, 5)), _chain(192, (64, 1), (96, 3), (96, 3)), pooled
    )
    mixed_6a = _Branches(
        _chain(320, (384, 3), last_stride=2),
        _chain(320, (256, 1), (256, 3), (384, 3), last_stride=2),
        nn.MaxPool2d(3, 2),
    )
    mixed_7a = _Branches(
        _chain(1088, (256, 1), (384, 3), last_stride=2),
        _chain(1088, (256, 1), (288, 3), last_stride=2),
        _chain(1088, (256, 1), (288, 3), (320, 3), last_stride=2),
        nn.MaxPool2d(3, 2),
    )
    return nn.Sequential(
        _Conv(3, 32, 3, 2),
        _Conv(32, 32, 3, padded=False),
        _Conv(32, 64, 3),
        nn.MaxPool2d(3, 2),
        _Conv(64, 80, 1),
        _Conv(80, 192, 3, padded=False),
        nn.MaxPool2d(3, 2),
        mixed_5b,
        nn.Sequential(*(_block35() for _ in range(REPEATED[0]))),
        mixed_6a,
        nn.Sequential(*(_block17() for _ in range(REPEATED[1]))),
        mixed_7a,
        nn.Sequential(*(_block8() for _ in range(REPEATED[2]))),
        _block8(scale=1.0, last=True),
        _Conv(2080, 1536, 1),
    )


class KonCeptNet(nn.Module):
    """Images ``(N, 3, H, W)`` -> opinion scores ``(N,)``."""

    def __init__(self) -> None:
        super().__init__()
        self.base = inception_resnet_v2()
        widths = (1536, 2048, 1024, 256)
        layers: list[nn.Module] = []
        for ins, outs in pairwise(widths):
            layers += [nn.Linear(ins, outs), nn.ReLU(), nn.BatchNorm1d(outs), nn.Dropout()]
        self.fc = nn.Sequential(*layers, nn.Linear(256, 1))

    def forward(self, images: Images) -> Scores:
        resized = F.interpolate(images, SIZE, mode="bilinear", antialias=True, align_corners=False)
        maps = self.base(2 * resized - 1)
        return self.fc(F.avg_pool2d(maps, POOLED, count_include_pad=False).flatten(2).mean(dim=2)).flatten()


class KonCept512(TrainableMetric):
    """Inception-ResNet-v2 trained on KonIQ-10k."""

    info = MetricInfo(
        id="harness/koncept512",
        version="1",
        higher_means="better_quality",
        bounds=(26.40314292907715, 66.86933898925781),
        unit="MOS",
        architecture="CNN",
        paper="hosu2020",
    )

    tuning = TuningPlan(train="koniq10k[split=training]", test="koniq10k[split=test]", batch=8)

    def assets(self) -> tuple[Asset, ...]:
        return (WEIGHTS,)

    def loss(self, scores: Scores, labels: torch.Tensor, span: float) -> torch.Tensor:
        """Return the mean squared error over the squared range of the labels (Hosu et al. 2020)."""
        return ((scores - labels) / span).square().mean()

    def network(self, device: torch.device) -> nn.Module:
        weights = state_dict(WEIGHTS)
        with Undrawn():
            network = KonCeptNet()
        fill(network, WEIGHTS, weights)
        return frozen(network, device)

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the network with its batch norms folded away."""
        return frozen(folded(self.tuned_network(device)), device)


@hookimpl
def components() -> list[TrainableMetric]:
    return [KonCept512()]
