"""Feature similarity, with the numbers of piq.

Zhang, Zhang, Mou & Zhang, "FSIM: A Feature Similarity Index for Image Quality Assessment" (IEEE TIP 2011), with the
chromatic part (FSIMc).
"""

import torch
import torch.nn.functional as F

from imharness.images import FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_perceptual.phase_congruency import phase_congruency
from imharness_perceptual.references import Features, ReferenceFeatures
from imharness_vision.constants import constant

SIDE = 256
"""The side, in px, to which the shorter side of an image is reduced approximately, by averaging blocks."""
OF_PHASE, OF_GRADIENT, OF_COLOUR, CHROMATIC = 0.85, 160.0, 200.0, 0.03
"""The paper's constants T1 (phase congruency), T2 (gradient), T3 = T4 (colour) and lambda, for grey levels 0 to 255."""
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))
SCHARR = ((-3.0, 0.0, 3.0), (-10.0, 0.0, 10.0), (-3.0, 0.0, 3.0))
FLAT = 1e-12
"""The least squared length of a gradient that has a direction, in squared grey levels."""
AT_ONCE_ON_CPU, AT_ONCE = 1 << 17, 1 << 22
"""The most pixels whose filter responses are in memory at a time, on a CPU and on a GPU. A pixel takes 400 bytes, with
a gradient. On a CPU, more pixels do not fit into its caches; a GPU needs about the same time for few and for many."""
PAIRS_KEPT = 16
"""The number of batches of references whose features are kept."""


class Fsim(FullReferenceMetric):
    """Feature similarity of phase congruency and gradient, with colour (FSIMc); 1 for identical images."""

    info = MetricInfo(
        id="harness/fsim", version="3", higher_means="better_quality", bounds=(0, 1), unit="1", paper="zhang2011"
    )

    def build(self, device: torch.device) -> FullReferenceScore:
        reference_features = ReferenceFeatures(_features, PAIRS_KEPT)

        def score(images: Images, reference: Images) -> Scores:
            count = _at_once(images)
            pairs = zip(images.split(count), reference.split(count), strict=True)
            return torch.cat(
                [_similarity(_features(batch), reference_features(references)) for batch, references in pairs]
            )

        return score


def _at_once(images: Images) -> int:
    """Return how many images are compared at a time."""
    pixels = images[0, 0].numel() // _block(images) ** 2
    return max(1, (AT_ONCE_ON_CPU if images.device.type == "cpu" else AT_ONCE) // pixels)


def _block(images: Images) -> int:
    """Return the side of the blocks that are averaged, px."""
    return max(1, round(min(images.shape[2:]) / SIDE))


def _features(images: Images) -> Features:
    """Return the colours ``(N, 3, h, w)``, the phase congruency and the slope ``(N, h, w)`` of the luma."""
    colours = _yiq(images)
    return colours, phase_congruency(colours[:, 0]), _slope(colours[:, :1])


def _similarity(features: Features, reference_features: Features) -> Scores:
    """Return FSIMc ``(N,)`` from what `_features` returns for images and references."""
    x, phase_x, slope_x = features
    y, phase_y, slope_y = reference_features
    weight = torch.maximum(phase_x, phase_y)
    colour = _alike(x[:, 1], y[:, 1], OF_COLOUR) * _alike(x[:, 2], y[:, 2], OF_COLOUR)
    similarity = _alike(phase_x, phase_y, OF_PHASE) * _alike(slope_x, slope_y, OF_GRADIENT)
    similarity = similarity * weight * colour.abs() ** CHROMATIC
    return similarity.sum(dim=(1, 2)) / weight.sum(dim=(1, 2))


def _yiq(images: Images) -> torch.Tensor:
    """Return luma and two colour axes ``(N, 3, h, w)``, in grey levels."""
    block = _block(images)
    large = 255 * images
    return torch.einsum("oc,nchw->nohw", constant(YIQ, images), F.avg_pool2d(large, block) if block > 1 else large)


def _slope(luma: torch.Tensor) -> torch.Tensor:
    """Return the length of the gradient ``(N, h, w)`` by Scharr's filter; on flat areas it has the slope 0."""
    kernel = constant(SCHARR, luma) / 16
    square = F.conv2d(luma, torch.stack([kernel, kernel.T])[:, None], padding=1).square().sum(dim=1)
    return square.clamp(min=FLAT).sqrt()


def _alike(x: torch.Tensor, y: torch.Tensor, floor: float) -> torch.Tensor:
    """Return the similarity of two features at each pixel, 1 where they are equal; `floor` is T of the paper."""
    return (2 * x * y + floor) / (x.square() + y.square() + floor)


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [Fsim()]
