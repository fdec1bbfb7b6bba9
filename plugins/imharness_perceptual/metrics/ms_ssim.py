"""Multi-scale structural similarity, as torchmetrics computes it.

Wang, Simoncelli & Bovik, "Multi-scale structural similarity for image quality assessment" (Asilomar 2003): five scales,
11x11 Gaussian window of 1.5 px.
"""

import torch

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, UsageError, hookimpl

SMALLEST = 161
"""Side that is left with an 11x11 window after four halvings, px."""


class MsSsim(FullReferenceMetric):
    """Multi-scale structural similarity, five scales, 11x11 Gaussian window; 1 for identical images."""

    info = MetricInfo(id="harness/ms-ssim", version="1", higher_means="better_quality", unit="1")

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric; raises `UsageError` for sides below 161 px."""
        from torchmetrics.functional.image import multiscale_structural_similarity_index_measure

        def score(images: Images, reference: Images) -> Scores:
            if min(images.shape[-2:]) < SMALLEST:
                raise UsageError(f"MS-SSIM needs images of at least {SMALLEST} px, got {tuple(images.shape[-2:])}")
            return multiscale_structural_similarity_index_measure(
                images, reference, reduction="none", data_range=1.0, normalize="relu"
            ).reshape(len(images))

        return score


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [MsSsim()]
