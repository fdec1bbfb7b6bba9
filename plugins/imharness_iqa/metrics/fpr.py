"""FPR: a no-reference network that was trained together with a full-reference one.

Chen, Zhu, Kong, Li & Wang, "No-Reference Image Quality Assessment by Hallucinating Pristine Features" (IEEE TIP 2022).
Only the scoring branch of the published weights is used: the part that rebuilds the pristine features is for training.
"""

import torch
import torch.nn.functional as F
from torch import nn

from imharness.images import Asset, Images, MetricInfo, NoReferenceMetric, NoReferenceScore, Scores, hookimpl
from imharness_vision.weights import Undrawn, fill, frozen, state_dict

WEIGHTS = Asset(
    name="fpr-natural-images",
    file="weights/fpr/FPR.pth",
    sha256="",
    licence="none stated",
    source="https://github.com/Baoliang93/FPR",
    steps="download the model for natural images by the link in the README of https://github.com/Baoliang93/FPR, and "
    "call it FPR.pth",
)
UNUSED = ("fl1.", "fl2.", "fl3.", "cl1.", "cl2.", "rl1.", "rl2.", "wl1.", "wl2.", "gn.", "InvRescaleNet.")
"""Begin the names of the weights of what only training needs: the full-reference network and the hallucination."""
PATCH = 64


class _Conv(nn.Module):
    def __init__(self, ins: int, outs: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(ins, outs, 3, 1, 1), nn.LeakyReLU(0.2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class _Double(nn.Module):
    def __init__(self, ins: int, outs: int, pooled: bool) -> None:
        super().__init__()
        self.conv1, self.conv2, self.pooled = _Conv(ins, outs), _Conv(outs, outs), pooled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv2(self.conv1(x))
        return F.max_pool2d(x, 2) if self.pooled else x


class _Single(nn.Module):
    def __init__(self, ins: int, outs: int) -> None:
        super().__init__()
        self.conv = _Conv(ins, outs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(self.conv(x), 2)


class FprNet(nn.Module):
    """Patches ``(N, P, 3, 64, 64)`` of N images -> quality ``(N,)``: their mean, weighted by a recurrent network.

    `width`: the channels of its first convolutions; the published network has 128.
    """

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        twice, four = 2 * width, 4 * width
        self.sfl1, self.sfl21 = _Double(3, width, True), _Double(width, twice, False)
        self.sfl22, self.sfl23 = _Double(twice, twice, True), _Double(twice, twice, False)
        self.sfl3 = _Double(twice, four, True)
        self.scl1, self.scl2 = _Single(four, 128), nn.Conv2d(128, 64, 3)
        self.srl1, self.srl2 = nn.Linear(256, 32), nn.Linear(32, 1)
        self.swl1, self.swl2 = nn.GRU(256, 32, batch_first=True), nn.Linear(32, 1)

    def forward(self, patches: torch.Tensor) -> Scores:
        x = patches.flatten(0, 1)
        for layer in (self.sfl1, self.sfl21, self.sfl22, self.sfl23, self.sfl3):
            x = layer(x)
        features = self.scl2(self.scl1(x)).flatten(1).unflatten(0, patches.shape[:2])
        scores = self.srl2(self.srl1(features))[..., 0]
        weights = F.relu(self.swl2(self.swl1(features)[0]))[..., 0] + 1e-8
        return (scores * weights).sum(dim=1) / weights.sum(dim=1)


class Fpr(NoReferenceMetric):
    """Network that hallucinates pristine features, on patches of 64 px."""

    info = MetricInfo(
        id="harness/fpr",
        version="1",
        higher_means="better_quality",
        bounds=(47.22482681274414, 77.04672241210938),
        unit="MOS",
        architecture="custom",
        paper="chen2022",
    )

    def assets(self) -> tuple[Asset, ...]:
        return (WEIGHTS,)

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric; an image below 64 px is repeated at its border."""
        with Undrawn():
            network = FprNet()
        fill(network, WEIGHTS, state_dict(WEIGHTS, "state_dict"), UNUSED)
        network = frozen(network, device)

        def score(images: Images) -> Scores:
            return network(patches(images))

        return score


def patches(images: Images) -> torch.Tensor:
    """Return ``(N, P, 3, 64, 64)``: whole patches side by side."""
    missing = [max(0, PATCH - side) for side in images.shape[2:]]
    images = F.pad(images, (0, missing[1], 0, missing[0]), mode="replicate")
    return images.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).flatten(2, 3).transpose(1, 2)


@hookimpl
def components() -> list[NoReferenceMetric]:
    return [Fpr()]
