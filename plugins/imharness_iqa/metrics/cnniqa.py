"""CNNIQA: a small network on grey patches, trained on LIVE.

Kang, Ye, Li & Doermann, "Convolutional Neural Networks for No-Reference Image Quality Assessment" (CVPR 2014), with the
weights and the preprocessing of github.com/lidq92/CNNIQA: patches of 32x32 px without the last row and column of
patches, each normalised locally. Grey values are not rounded, so that gradients pass. The bounds follow appendix A.3.2
of Guardians of Image Quality on the 24 Kodak photographs: the best score of a clean image, and the worst score of JPEG
at quality 10 and of noise.
"""

import torch
import torch.nn.functional as F
from torch import nn

from imharness.images import Asset, Images, MetricInfo, NoReferenceMetric, NoReferenceScore, Scores, hookimpl
from imharness_iqa.natural_statistics import luma
from imharness_vision.weights import fill, frozen, state_dict

WEIGHTS = Asset(
    name="cnniqa-live",
    file="weights/cnniqa/CNNIQA-LIVE.pth",
    sha256="79cc404d0da3e76e51b6680c4d6edd7332399ba7ed8af3306bdd16e95c7bda7e",
    size=2900940,
    licence="none stated",
    source="https://github.com/lidq92/CNNIQA",
    address="https://github.com/lidq92/CNNIQA/raw/fb36830fc6491ef8db2dc651aaad94cdbee131fa/models/CNNIQA-LIVE",
)
PATCH = 32


class CnniqaNet(nn.Module):
    """The network: normalised grey patches ``(P, 1, 32, 32)`` -> scores ``(P,)``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 50, 7)
        self.fc1, self.fc2, self.fc3 = nn.Linear(100, 800), nn.Linear(800, 800), nn.Linear(800, 1)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        maps = self.conv1(patches).flatten(2)
        x = torch.cat([maps.max(dim=2).values, maps.min(dim=2).values], dim=1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x))))).flatten()


class Cnniqa(NoReferenceMetric):
    """Network of Kang et al. with weights trained on LIVE. It predicts DMOS, so lower is better."""

    info = MetricInfo(
        id="harness/cnniqa",
        version="1",
        higher_means="worse_quality",
        bounds=(8.835, 76.449),
        unit="DMOS",
        architecture="CNN",
        paper="kang2014",
    )

    def assets(self) -> tuple[Asset, ...]:
        return (WEIGHTS,)

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric; an image smaller than 32 px is padded to one patch."""
        network = CnniqaNet()
        fill(network, WEIGHTS, state_dict(WEIGHTS))
        network = frozen(network, device)

        def score(images: Images) -> Scores:
            patches = grey_patches(luma(images))
            return network(_locally_normalised(patches.flatten(0, 1))).view(patches.shape[:2]).mean(dim=1)

        return score


def grey_patches(grey: torch.Tensor) -> torch.Tensor:
    """Return the patches ``(N, P, 1, 32, 32)`` of grey images ``(N, 1, H, W)``, side by side, not normalised yet."""
    grey = F.pad(grey, (0, max(0, PATCH - grey.shape[3]), 0, max(0, PATCH - grey.shape[2])), mode="replicate")
    down, across = (PATCH * max(1, -(-(side - PATCH) // PATCH)) for side in grey.shape[2:])
    tiles = grey[:, 0, :down, :across].unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH)
    return tiles.flatten(1, 2)[:, :, None]


def _locally_normalised(patches: torch.Tensor) -> torch.Tensor:
    """Subtract the mean of 3x3 px and divide by their deviation plus 1."""
    padded = F.pad(patches, [1] * 4, mode="replicate")
    mean, power = (F.avg_pool2d(x, 3, 1) for x in (padded, padded.square()))
    return (patches - mean) / ((power - mean.square()).clamp(min=1e-12).sqrt() + 1)


@hookimpl
def components() -> list[NoReferenceMetric]:
    return [Cnniqa()]
