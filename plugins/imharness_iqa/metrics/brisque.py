"""BRISQUE: a support vector machine on natural-scene statistics.

Mittal, Moorthy & Bovik, "No-Reference Image Quality Assessment in the Spatial Domain" (IEEE TIP 2012), with the model
trained on LIVE that OpenCV publishes. Luma is rounded to 8 bits as there, and the gradient passes straight through the
rounding. The score is not clipped to [0, 100], and shapes are interpolated on their grid.
"""

import cv2
import numpy as np
import torch
import torch.nn.functional as F

from imharness.data import double
from imharness.images import Asset, Images, MetricInfo, NoReferenceMetric, NoReferenceScore, Scores, hookimpl
from imharness_iqa.natural_statistics import (
    NEIGHBOURS,
    asymmetric_fit,
    gamma_ratio,
    luma,
    normalised,
    whole_levels,
)
from imharness_vision.filters import gaussian_line

OPENCV = "https://github.com/opencv/opencv_contrib"
SAMPLES = f"{OPENCV}/raw/2a5154a4/modules/quality/samples"
MODEL = Asset(
    name="brisque-live-model",
    file="natural-statistics/brisque_model_live.yml",
    sha256="4c44c7eec9e5139830c0bb0e4a044c9cd351ba5bbc9e3798beca3243e2782ff4",
    size=567815,
    licence="Apache-2.0",
    source=OPENCV,
    address=f"{SAMPLES}/brisque_model_live.yml",
)
RANGE = Asset(
    name="brisque-live-range",
    file="natural-statistics/brisque_range_live.yml",
    sha256="a18427f4f7ad087524bd0d63389649a3899b51ca6d44a4d5f8d8171f1f914a9c",
    size=1356,
    licence="Apache-2.0",
    source=OPENCV,
    address=f"{SAMPLES}/brisque_range_live.yml",
)


class Brisque(NoReferenceMetric):
    """Support vector machine on natural-scene statistics, trained on LIVE; lower is better."""

    info = MetricInfo(
        id="harness/brisque",
        version="3",
        higher_means="worse_quality",
        bounds=(-10.61309814453125, 95.60858154296875),
        unit="DMOS",
        paper="mittal2012",
    )

    def assets(self) -> tuple[Asset, ...]:
        """Return the machine and the range of its features."""
        return (MODEL, RANGE)

    def build(self, device: torch.device) -> NoReferenceScore:
        exact = double(torch.zeros((), device=device)).device
        vectors, weights, offset, gamma = (torch.as_tensor(x, dtype=torch.float64, device=exact) for x in machine())
        storage = opened(RANGE)
        low, high = torch.from_numpy(storage.getNode("range").mat()).double().to(exact)
        line = gaussian_line(7, 7 / 6).to(device)

        def score(images: Images) -> Scores:
            grey = whole_levels(luma(images) * 255) / 255
            scaled = 2 * (double(_features(grey, line)) - low) / (high - low) - 1
            distance = (scaled[:, None] - vectors[None]).square().sum(dim=2)
            return (weights * (-gamma * distance).exp()).sum(dim=1).sub(offset).float().to(images.device)

        return score


def opened(asset: Asset) -> cv2.FileStorage:
    """Return an asset in OpenCV's format for reading; raises `Unavailable` when it is not here."""
    return cv2.FileStorage(str(asset.path()), cv2.FILE_STORAGE_READ)


def machine() -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return support vectors ``(S, 36)``, their weights ``(S,)``, the offset and the width of the kernel."""
    storage = opened(MODEL)
    machine = storage.getNode("opencv_ml_svm")
    listed = machine.getNode("support_vectors")
    vectors = [[listed.at(i).at(j).real() for j in range(listed.at(i).size())] for i in range(listed.size())]
    decision = machine.getNode("decision_functions").at(0)
    chosen = decision.getNode("alpha")
    weights = [chosen.at(i).real() for i in range(chosen.size())]
    return (
        np.array(vectors),
        np.array(weights),
        decision.getNode("rho").real(),
        machine.getNode("kernel").getNode("gamma").real(),
    )


def _features(grey: torch.Tensor, line: torch.Tensor) -> torch.Tensor:
    """Return ``(N, 36)``: 18 numbers at full and at half size."""
    half = F.interpolate(grey, [side // 2 for side in grey.shape[2:]], mode="bicubic", align_corners=False)
    return torch.cat([_of_scale(normalised(scaled, line, 1 / 255)[:, 0]) for scaled in (grey, half)], dim=1)


def _of_scale(x: torch.Tensor) -> torch.Tensor:
    """Return ``(N, 18)``: numbers of the fitted distributions of one scale.

    There are 2 of the normalised image ``(N, H, W)``, and 4 of its product with each of four neighbours, which are zero
    beyond the border.
    """
    height, width = x.shape[1:]
    shape, left_spread, right_spread = asymmetric_fit(x.flatten(1))
    numbers = [shape, (left_spread.square() + right_spread.square()) / 2]
    padded = F.pad(x, [1] * 4)
    for down, across in (*NEIGHBOURS[:3], (-1, 1)):
        other = padded[:, 1 + down : 1 + down + height, 1 + across : 1 + across + width]
        shape, left_spread, right_spread = asymmetric_fit((x * other).flatten(1))
        mean = (right_spread - left_spread) * gamma_ratio(shape, 2, 1) * gamma_ratio(shape, 1, 3).sqrt()
        numbers += [shape, mean, left_spread.square(), right_spread.square()]
    return torch.stack(numbers, dim=1)


@hookimpl
def components() -> list[NoReferenceMetric]:
    return [Brisque()]
