"""Structural similarity with the settings of scikit-image.

Wang et al., "Image quality assessment: from error visibility to structural similarity" (IEEE TIP 2004), equation 13;
window 7x7 uniform, K1 = 0.01, K2 = 0.03, sample covariance, each channel alone, mean over channels, borders of 3 px
left out: ``skimage.metrics.structural_similarity(a, b, channel_axis=-1, data_range=1)``.
"""

import torch
import torch.nn.functional as F

from harness.api import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, UsageError, hookimpl

WINDOW = 7
C1, C2 = 0.01**2, 0.03**2


class SsimUniform7(FullReferenceMetric):
    """Structural similarity, 7x7 uniform window, mean over channels; 1 for identical images."""

    info = MetricInfo(id="harness/ssim-uniform7", version="1", higher_means="better_quality", unit="1")

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric; raises `UsageError` for images smaller than the window."""
        sample = WINDOW**2 / (WINDOW**2 - 1)

        def score(images: Images, reference: Images) -> Scores:
            if min(images.shape[-2:]) < WINDOW:
                raise UsageError(f"SSIM needs images of at least {WINDOW} px, got {tuple(images.shape[-2:])}")
            n = len(images)
            moments = torch.cat([images, reference, images * images, reference * reference, images * reference])
            means = F.avg_pool2d(F.avg_pool2d(moments, (WINDOW, 1), 1), (1, WINDOW), 1)
            x, y, xx, yy, xy = means.split(n)
            vx, vy, vxy = (xx - x * x) * sample, (yy - y * y) * sample, (xy - x * y) * sample
            similarity = ((2 * x * y + C1) * (2 * vxy + C2)) / ((x * x + y * y + C1) * (vx + vy + C2))
            return similarity.flatten(1).mean(dim=1)

        return score


@hookimpl
def register_metrics() -> list[FullReferenceMetric]:
    return [SsimUniform7()]
