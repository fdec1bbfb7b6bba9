"""DISTS with the published weights.

Ding, Ma, Wang & Simoncelli, "Image Quality Assessment: Unifying Structure and Texture Similarity" (TPAMI 2020).
"""

import torch

from imharness.images import Asset, FullReferenceMetric, FullReferenceScore, MetricInfo, hookimpl
from imharness_vision.perceptual import DISTS_WEIGHTS, VGG16, dists


class DistsMetric(FullReferenceMetric):
    """Deep structure and texture similarity (VGG-16), as a distance; 0 for identical images."""

    info = MetricInfo(
        id="harness/dists", version="1", higher_means="worse_quality", bounds=(0, 1), unit="1", paper="ding2020"
    )

    def assets(self) -> tuple[Asset, ...]:
        """Return the backbone and the weights of the two terms."""
        return (VGG16, DISTS_WEIGHTS)

    def build(self, device: torch.device) -> FullReferenceScore:
        return dists(device)


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [DistsMetric()]
