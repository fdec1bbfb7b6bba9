"""DISTS with the published weights.

Ding, Ma, Wang & Simoncelli, "Image Quality Assessment: Unifying Structure and Texture Similarity" (TPAMI 2020). As in
the authors' program, images whose shorter side is longer than 256 px are shrunk to 256 px first, by bilinear
interpolation with a wide kernel (github dingkeyan93/DISTS 1267d8cb, prepare_image); only its rounding to 8 bits is left
out, so that gradients pass.
"""

import torch
import torch.nn.functional as F

from imharness.images import Asset, FullReferenceMetric, FullReferenceScore, Images, MetricInfo, hookimpl
from imharness_vision.perceptual import DISTS_WEIGHTS, VGG16, dists

SIDE = 256
"""The shorter side to which larger images are shrunk, px."""


def shrunk(images: Images) -> Images:
    """Return images ``(N, 3, H, W)`` whose shorter side has at most `SIDE` px; the longer one keeps their shape."""
    height, width = images.shape[-2:]
    shorter = min(height, width)
    if shorter <= SIDE:
        return images
    size = (SIDE * height // shorter, SIDE * width // shorter)
    return F.interpolate(images, size, mode="bilinear", antialias=True)


class DistsMetric(FullReferenceMetric):
    """Deep structure and texture similarity (VGG-16), as a distance; 0 for identical images."""

    info = MetricInfo(
        id="harness/dists", version="2", higher_means="worse_quality", bounds=(0, 1), unit="1", paper="ding2020"
    )

    def assets(self) -> tuple[Asset, ...]:
        """Return the backbone and the weights of the two terms."""
        return (VGG16, DISTS_WEIGHTS)

    def build(self, device: torch.device) -> FullReferenceScore:
        network = dists(device)
        return lambda images, reference: network(shrunk(images), shrunk(reference))


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [DistsMetric()]
