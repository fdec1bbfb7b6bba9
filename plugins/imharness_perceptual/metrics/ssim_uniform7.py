"""Structural similarity with the settings of scikit-image.

Wang et al., "Image quality assessment: from error visibility to structural similarity" (IEEE TIP 2004), equation 13;
window 7x7 uniform, K1 = 0.01, K2 = 0.03, sample covariance, each channel alone, mean over channels, borders of 3 px
left out: ``skimage.metrics.structural_similarity(a, b, channel_axis=-1, data_range=1)``.
"""

import cv2
import torch
import torch.nn.functional as F

from imharness.errors import UsageError
from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl

WINDOW = 7
MARGIN = WINDOW // 2
C1, C2 = 0.01**2, 0.03**2
SAMPLE = WINDOW**2 / (WINDOW**2 - 1)
AT_ONCE = 1 << 18
"""The number of values that are compared at once, so that intermediate results stay in the processor's cache."""


class SsimUniform7(FullReferenceMetric):
    """Structural similarity, 7x7 uniform window, mean over channels; 1 for identical images."""

    info = MetricInfo(id="harness/ssim-uniform7", version="2", higher_means="better_quality", bounds=(0, 1), unit="1")

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric; raises `UsageError` for images smaller than the window."""

        def score(images: Images, reference: Images) -> Scores:
            if min(images.shape[-2:]) < WINDOW:
                raise UsageError(f"SSIM needs images of at least {WINDOW} px, got {tuple(images.shape[-2:])}")
            x, y = images.flatten(0, 1), reference.flatten(0, 1)
            few = max(1, AT_ONCE // x[0].numel()) if x.device.type == "cpu" else len(x)
            similarity = [_similarity(*planes) for planes in zip(x.split(few), y.split(few), strict=True)]
            return torch.cat(similarity).view(len(images), -1).mean(dim=1)

        return score


def _similarity(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean similarity ``(P,)`` of planes ``(P, H, W)``."""
    mean_x, mean_y, mean_xy = _means(x), _means(y), _means(x * y)
    power = _means(torch.addcmul(x * x, y, y))
    product, squares = mean_x * mean_y, torch.addcmul(mean_x * mean_x, mean_y, mean_y)
    if x.requires_grad:
        structure = (2 * SAMPLE * (mean_xy - product) + C2) / (SAMPLE * (power - squares) + C2)
        similarity = structure * (2 * product + C1) / (squares + C1)
    else:
        similarity = _in_place(mean_xy, product, power, squares)
    return similarity[:, MARGIN:-MARGIN, MARGIN:-MARGIN].mean(dim=(1, 2))


def _in_place(mean_xy: torch.Tensor, product: torch.Tensor, power: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    """Return the similarity map; the arguments are overwritten to save memory."""
    above = mean_xy.sub_(product).mul_(2 * SAMPLE).add_(C2).mul_(product.mul_(2).add_(C1))
    below = power.sub_(squares).mul_(SAMPLE).add_(C2).mul_(squares.add_(C1))
    return above.div_(below)


def _means(planes: torch.Tensor) -> torch.Tensor:
    """Return the mean over the window around each place of ``(P, H, W)``; it is meaningless near the border.

    On the CPU, OpenCV computes it several times faster.
    """
    if planes.device.type != "cpu" or planes.requires_grad:
        columns = F.avg_pool2d(planes[:, None], (WINDOW, 1), 1, (MARGIN, 0))
        return F.avg_pool2d(columns, (1, WINDOW), 1, (0, MARGIN))[:, 0]
    stacked = planes.contiguous().view(-1, planes.shape[2]).numpy()
    return torch.from_numpy(cv2.blur(stacked, (WINDOW, WINDOW))).view(planes.shape)


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [SsimUniform7()]
