"""NIQE: how far the statistics of an image are from those of natural photographs.

Mittal, Soundararajan & Bovik, "Making a 'Completely Blind' Image Quality Analyzer" (IEEE SPL 2013), with the published
parameters of the pristine model. Luma is rounded to 8 bits, as MATLAB's is, and the gradient passes straight through
the rounding. The shape of a distribution is interpolated on its grid, so that gradients pass.
"""

import numpy as np
import torch
import torch.nn.functional as F

from imharness.data import double
from imharness.images import Asset, Images, MetricInfo, NoReferenceMetric, NoReferenceScore, Scores, hookimpl
from imharness_iqa.natural_statistics import NEIGHBOURS, asymmetric_fit, gamma_ratio, normalised, whole_levels
from imharness_vision.constants import constant

PARAMETERS = Asset(
    name="niqe-pristine",
    file="natural-statistics/niqe_pris_params.npz",
    sha256="2a7c182a68c9e7f1b2e2e5ec723279d6f65d912b6fcaf37eb2bf03d7367c4296",
    size=11850,
    licence="Apache-2.0",
    source="https://github.com/XPixelGroup/BasicSR",
    address="https://github.com/XPixelGroup/BasicSR/raw/8d56e3a045f9fb3e1d8872f92ee4a4f07f886b0a/"
    "basicsr/metrics/niqe_pris_params.npz",
)
BLOCK = 96
Y_WEIGHTS, Y_OFFSET = (65.481, 128.553, 24.966), 16.0


class Niqe(NoReferenceMetric):
    """Distance of natural-scene statistics from a pristine model; lower is better."""

    info = MetricInfo(
        id="harness/niqe",
        version="3",
        higher_means="worse_quality",
        bounds=(1.4140845773108388, 28.737131730780796),
        unit="1",
        paper="mittal2013",
    )

    def assets(self) -> tuple[Asset, ...]:
        return (PARAMETERS,)

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric; an image with a side below 96 px is one block, and a single block has no spread."""
        with np.load(PARAMETERS.path(), allow_pickle=False) as stored:
            mean, covariance, window = (
                torch.from_numpy(stored[name]).float().to(device)
                for name in ("mu_pris_param", "cov_pris_param", "gaussian_window")
            )
        line = window.sum(dim=0)  # the window is a Gaussian of sum 1, and so the product of two lines

        def score(images: Images) -> Scores:
            luminance = (images * constant(Y_WEIGHTS, images).view(1, 3, 1, 1)).sum(dim=1, keepdim=True) + Y_OFFSET
            features = _features(whole_levels(luminance), line)
            own_mean = features.mean(dim=1)
            centred = features - own_mean[:, None]
            image_covariance = centred.transpose(1, 2) @ centred / max(features.shape[1] - 1, 1)
            difference = double(own_mean - mean)
            inverse = torch.linalg.pinv(double((covariance + image_covariance) / 2), hermitian=True)
            squares = torch.einsum("ni,nij,nj->n", difference, inverse, difference)
            return squares.clamp(min=1e-12).sqrt().float().to(images.device)

        return score


def _features(luminance: torch.Tensor, line: torch.Tensor) -> torch.Tensor:
    """Return ``(N, blocks, 36)``: 18 numbers at full and at half size of each block."""
    height, width = (min(BLOCK, side // 2 * 2) for side in luminance.shape[2:])
    down, across = luminance.shape[2] // height, luminance.shape[3] // width
    cut = luminance[:, :, : down * height, : across * width]
    scales = []
    for scale in (1, 2):
        size = (height // scale, width // scale)
        blocks = F.unfold(normalised(cut, line, 1.0), size, stride=size).transpose(1, 2)
        scales.append(_of_blocks(blocks.unflatten(2, size)))
        half = (cut.shape[2] // 2, cut.shape[3] // 2)
        cut = F.interpolate(cut, half, mode="bicubic", antialias=True, align_corners=False)
    return torch.cat(scales, dim=2)


def _of_blocks(blocks: torch.Tensor) -> torch.Tensor:
    """Return ``(N, blocks, 18)``: numbers of the fitted distributions of blocks ``(N, blocks, H, W)``.

    There are 2 of the block, and 4 of its product with each of four neighbours.
    """
    shape, left_spread, right_spread = asymmetric_fit(blocks.flatten(2))
    scale = gamma_ratio(shape, 1, 3).sqrt()
    numbers = [shape, (left_spread + right_spread) / 2 * scale]
    for shift in NEIGHBOURS:
        shape, left_spread, right_spread = asymmetric_fit((blocks * blocks.roll(shift, (2, 3))).flatten(2))
        scale = gamma_ratio(shape, 1, 3).sqrt()
        mean = (right_spread - left_spread) * scale * gamma_ratio(shape, 2, 1)
        numbers += [shape, mean, left_spread * scale, right_spread * scale]
    return torch.stack(numbers, dim=2)


@hookimpl
def components() -> list[NoReferenceMetric]:
    return [Niqe()]
