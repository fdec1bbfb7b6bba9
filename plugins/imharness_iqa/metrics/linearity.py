"""Linearity: a ResNeXt-101 trained with the norm-in-norm loss.

Li, Jiang & Jiang, "Norm-in-Norm Loss with Faster Convergence and Better Performance for Image Quality Assessment" (ACM
MM 2020).
"""

from itertools import pairwise

import torch
from torch import nn

from imharness.errors import Unavailable
from imharness.images import Asset, Images, MetricInfo, Scores, hookimpl
from imharness.training import TrainableMetric, TuningPlan
from imharness_vision.perceptual import normalised
from imharness_vision.weights import Undrawn, fill, frozen, state_dict

WEIGHTS = Asset(
    name="linearity",
    file="weights/linearity/p1q2.pth",
    sha256="",
    licence="MIT",
    source="https://github.com/lidq92/LinearityIQA",
    steps="download p1q2.pth in a browser from https://drive.google.com/file/d/1fwP7rhwdWwUtV92kkdLx88SXq3SvxfRs/view",
)


EPS = 1e-8
"""Keeps a batch of equal scores from dividing by 0, as in the published code."""


def _reduction(channels: int) -> nn.Sequential:
    widths = (channels, 1024, 256, 64)
    layers = [m for i, o in pairwise(widths) for m in (nn.Linear(i, o), nn.BatchNorm1d(o))]
    return nn.Sequential(*layers, nn.ReLU())


class LinearityNet(nn.Module):
    """Images ``(N, 3, H, W)`` -> opinion scores ``(N,)``: a linear map of the network's answer."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models import resnext101_32x8d

        self.features = nn.Sequential(*list(resnext101_32x8d(weights=None).children())[:-2])
        self.dr6, self.dr7 = _reduction(1024), _reduction(2048)
        self.regr6, self.regr7 = nn.Linear(64, 1), nn.Linear(64, 1)
        self.regression = nn.Linear(128, 1)
        self.register_buffer("slope", torch.ones(()))
        self.register_buffer("offset", torch.zeros(()))

    def forward(self, images: Images) -> Scores:
        six = self.features[:7](normalised(images))
        seven = self.features[7](six)
        reduced = [reduce(maps.mean(dim=(2, 3))) for reduce, maps in ((self.dr6, six), (self.dr7, seven))]
        return self.slope * self.regression(torch.cat(reduced, dim=1)).flatten() + self.offset


def norm_in_norm(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the norm-in-norm loss with p = 1 and q = 2, in [0, 1]; 0 for a single image.

    Li, Jiang & Jiang, "Norm-in-Norm Loss with Faster Convergence and Better Performance for Image Quality Assessment"
    (ACM MM 2020): both are centred and divided by their Euclidean norm; the sum of the absolute differences over its
    largest value 2 sqrt(N).
    """
    if len(scores) == 1:
        return 0 * scores.sum()
    mine, theirs = ((x - x.mean()) / (EPS + torch.linalg.vector_norm(x - x.mean())) for x in (scores, labels))
    return (mine - theirs).abs().sum() / (2 * len(scores) ** 0.5)


class Linearity(TrainableMetric):
    """ResNeXt-101 trained with the norm-in-norm loss on KonIQ-10k."""

    info = MetricInfo(
        id="harness/linearity",
        version="1",
        higher_means="better_quality",
        bounds=(25.780681610107422, 83.22696685791016),
        unit="MOS",
        architecture="CNN",
        paper="li2020",
    )

    tuning = TuningPlan(train="koniq10k[split=training]", test="koniq10k[split=test]", batch=8)

    scale_free = True

    def assets(self) -> tuple[Asset, ...]:
        return (WEIGHTS,)

    def loss(self, scores: Scores, labels: torch.Tensor, span: float) -> torch.Tensor:
        """Return the norm-in-norm loss of the scores, p = 1 and q = 2; the authors add it on two inner scores."""
        return norm_in_norm(scores, labels)

    def rescale(self, network: nn.Module, slope: float, offset: float) -> None:
        """Change the line after the network."""
        assert isinstance(network, LinearityNet)
        network.slope.mul_(slope)
        network.offset.mul_(slope).add_(offset)

    def network(self, device: torch.device) -> nn.Module:
        """Return the network; its output is scaled by k and shifted by b, which are part of the published file."""
        whole = state_dict(WEIGHTS)
        try:
            line = {name: torch.tensor(float(whole[key][0])) for name, key in (("slope", "k"), ("offset", "b"))}
        except (KeyError, IndexError, TypeError, ValueError):
            raise Unavailable(f"{WEIGHTS.path()} contains no line k, b", f"replace it, from {WEIGHTS.source}") from None
        with Undrawn():
            network = LinearityNet()
        fill(network, WEIGHTS, {**state_dict(WEIGHTS, "model"), **line})
        return frozen(network, device)


@hookimpl
def components() -> list[TrainableMetric]:
    return [Linearity()]
