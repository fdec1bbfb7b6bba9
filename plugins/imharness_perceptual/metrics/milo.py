"""MILO: differences of pixels, weighed by how visible a small network says they are.

Çoğalan, Bemana, Myszkowski, Seidel & Groth, "MILO: A Lightweight Perceptual Quality Metric for Image and Latent-Space
Optimization" (ACM TOG 2025). This follows the abstract and the authors' code; the paper itself was not read. The mask
is a weight for each pixel. It is computed at four scales from coarse to fine: at each, one network of five convolutions
sees the image, the reference and the mask of the coarser scale, and its output is added to that mask. The distance is
the mean of mask times absolute difference.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import nn

from imharness.errors import UsageError
from imharness.images import Asset, FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_vision.weights import Undrawn, fill, frozen, state_dict

SOURCE = "https://github.com/uc-vision/MILO"
ASSET = Asset(
    name="milo",
    file="weights/milo/MILO.pth",
    sha256="",
    licence="not stated",
    source=SOURCE,
    steps=f"download weights/MILO.pth from {SOURCE}",
)
WIDTHS = (7, 32, 64, 32, 16, 1)
"""Channels from the image, the reference and the mask to one weight for each pixel."""
SCALES = 4
SMALLEST = 2**SCALES
"""The shortest side of an image, px: the first mask, which is half as large as the coarsest scale, then has a pixel."""
UNUSED = ("scaler_network.",)
"""Begins the names of weights that scale the authors' map of errors, which is not in the distance."""


class _Visibility(nn.Module):
    """Channels ``(N, 7, H, W)`` -> how much a difference counts ``(N, 1, H, W)``, in [0, 1]."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inside, outside in itertools.pairwise(WIDTHS):
            layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU()]
        self.netBasic = nn.Sequential(*layers[:-1])

    def forward(self, channels: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.netBasic(channels))


class MiloNetwork(nn.Module):
    """Images and reference ``(N, 3, H, W)`` -> weights of the differences ``(N, 1, H, W)``, in [0, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.mask_finder_1 = _Visibility()

    def forward(self, images: Images, reference: Images) -> torch.Tensor:
        pairs = [torch.cat([images, reference], dim=1)]
        for _ in range(SCALES - 1):
            pairs.append(F.avg_pool2d(pairs[-1], 2))
        height, width = pairs[-1].shape[2:]
        mask = images.new_zeros(len(images), 1, height // 2, width // 2)
        for pair in reversed(pairs):
            mask = F.interpolate(mask, scale_factor=2, mode="bilinear", align_corners=True)
            odd = pair.shape[3] - mask.shape[3], pair.shape[2] - mask.shape[2]
            mask = F.pad(mask, (0, odd[0], 0, odd[1]), mode="replicate")
            mask = self.mask_finder_1(torch.cat([pair, mask], dim=1)) + mask
        return mask


class Milo(FullReferenceMetric):
    """Mean absolute difference, weighed by visibility; 0 for identical images, at most 4."""

    opt_in = True

    info = MetricInfo(
        id="harness/milo", version="1", higher_means="worse_quality", bounds=(0, 4), unit="1", paper="cogalan2025"
    )

    def assets(self) -> tuple[Asset, ...]:
        """Return the published file."""
        return (ASSET,)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric; raises `UsageError` for sides below 16 px."""
        with Undrawn():
            network = MiloNetwork()
        fill(network, ASSET, state_dict(ASSET), UNUSED)
        network = frozen(network, device)

        def score(images: Images, reference: Images) -> Scores:
            if min(images.shape[2:]) < SMALLEST:
                raise UsageError(f"MILO needs images of at least {SMALLEST} px, got {tuple(images.shape[2:])}")
            reference = reference.expand_as(images)
            return (network(images, reference) * (images - reference).abs()).mean(dim=(1, 2, 3))

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [Milo()]
