"""SPAQ's baseline: a ResNet-50 on windows of smartphone photographs.

Fang, Zhu, Zeng, Ma & Wang, "Perceptual Quality Assessment of Smartphone Photography" (CVPR 2020). The score is
the mean over windows of 224 px that overlap by half; the last ones lie at the border.
"""

import torch
import torch.nn.functional as F
from torch import nn

from imharness.images import Asset, Images, MetricInfo, NoReferenceMetric, NoReferenceScore, Scores, hookimpl
from imharness_vision.weights import Undrawn, fill, folded, frozen, state_dict

WEIGHTS = Asset(
    name="spaq-baseline",
    file="weights/spaq/BL_release.pt",
    sha256="",
    licence="none stated",
    source="https://github.com/h4nwei/SPAQ",
    steps="download BL_release.pt in a browser from https://drive.google.com/file/d/1pXjXAIItViTFs7qUBY-b11WY50mzoVM2/view",
)
WINDOW = 224


class SpaqNet(nn.Module):
    """Windows ``(P, 3, 224, 224)`` -> quality ``(P,)``."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models import resnet50

        self.backbone = resnet50(weights=None)
        self.backbone.fc = nn.Linear(self.backbone.fc.in_features, 1)

    def forward(self, images: Images) -> Scores:
        return self.backbone(images).flatten()


class Spaq(NoReferenceMetric):
    """ResNet-50 on half overlapping windows, trained on smartphone photographs."""

    info = MetricInfo(
        id="harness/spaq",
        version="1",
        higher_means="better_quality",
        bounds=(21.749107360839844, 77.75585174560547),
        unit="MOS",
        architecture="CNN",
        paper="fang2020",
    )

    def assets(self) -> tuple[Asset, ...]:
        return (WEIGHTS,)

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric; an image below 224 px is repeated at its border."""
        weights = state_dict(WEIGHTS, "state_dict")
        with Undrawn():
            network = SpaqNet()
        fill(network, WEIGHTS, weights)
        network = frozen(folded(network), device)

        def score(images: Images) -> Scores:
            crops = windows(images)
            return network(crops.flatten(0, 1)).view(crops.shape[:2]).mean(dim=1)

        return score


def windows(images: Images) -> torch.Tensor:
    """Return ``(N, P, 3, 224, 224)``."""
    missing = [max(0, WINDOW - side) for side in images.shape[2:]]
    images = F.pad(images, (0, missing[1], 0, missing[0]), mode="replicate")
    rows, columns = (_starts(side) for side in images.shape[2:])
    return torch.stack([images[:, :, y : y + WINDOW, x : x + WINDOW] for y in rows for x in columns], dim=1)


def _starts(side: int) -> list[int]:
    last = side - WINDOW
    return sorted({*range(0, last + 1, WINDOW // 2), last})


@hookimpl
def components() -> list[NoReferenceMetric]:
    return [Spaq()]
