"""Multi-scale structural similarity, as its authors' MATLAB code computes it, mean of the three colours.

Wang, Simoncelli & Bovik, "Multi-scale structural similarity for image quality assessment" (Asilomar 2003): five scales,
11x11 Gaussian window of 1.5 px, which lies within the image at every scale. An odd side is lengthened by its last pixel
before it is halved. A negative mean of a scale counts as 0.
"""

import torch
import torch.nn.functional as F

from imharness.errors import UsageError
from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_vision.filters import filtered, gaussian_line

SMALLEST = 161
"""The shortest side that still holds an 11x11 window after four halvings, px."""
WINDOW, SIGMA = 11, 1.5
WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""Exponents of the scales, from the full size down."""
C1, C2 = 0.01**2, 0.03**2


class MsSsim(FullReferenceMetric):
    """Multi-scale structural similarity, five scales, 11x11 Gaussian window; 1 for identical images."""

    info = MetricInfo(id="harness/ms-ssim", version="3", higher_means="better_quality", bounds=(0, 1), unit="1")

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric; raises `UsageError` for sides below 161 px."""
        line, weights = gaussian_line(WINDOW, SIGMA).to(device), torch.tensor(WEIGHTS, device=device)[:, None, None]

        def score(images: Images, reference: Images) -> Scores:
            if min(images.shape[-2:]) < SMALLEST:
                raise UsageError(f"MS-SSIM needs images of at least {SMALLEST} px, got {tuple(images.shape[-2:])}")
            factors = []
            for _ in WEIGHTS[1:]:
                factors.append(_compared(images, reference, line)[0].mean(dim=(2, 3)))
                images, reference = _halved(images), _halved(reference)
            contrast, product, squares = _compared(images, reference, line)
            luminance = (2 * product + C1) / (squares + C1)
            factors.append((contrast * luminance).mean(dim=(2, 3)))
            return (torch.stack(factors).relu() ** weights).prod(dim=0).mean(dim=1)

        return score


def _halved(x: torch.Tensor) -> torch.Tensor:
    """Return means of 2x2 pixels, ``(N, C, ceil(H / 2), ceil(W / 2))``."""
    height, width = x.shape[-2:]
    if height % 2 or width % 2:
        x = F.pad(x, [0, width % 2, 0, height % 2], mode="replicate")
    return F.avg_pool2d(x, 2)


def _compared(x: torch.Tensor, y: torch.Tensor, line: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return three maps over the places of the window.

    They are the comparison of contrast and structure, the product of the two means, and the sum of their squares.
    """
    mean_x, mean_y, mean_xy, power = filtered(torch.stack([x, y, x * y, torch.addcmul(x * x, y, y)]), line)
    product, squares = mean_x * mean_y, torch.addcmul(mean_x * mean_x, mean_y, mean_y)
    contrast = (2 * (mean_xy - product) + C2) / (power - squares + C2)
    return contrast, product, squares


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [MsSsim()]
