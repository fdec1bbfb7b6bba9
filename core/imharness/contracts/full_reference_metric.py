"""Metrics that compare an image with its reference."""

from collections.abc import Callable
from typing import TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric import Metric
from imharness.contracts.values import IMAGES, SCORES, Images, Scores

FullReferenceScore: TypeAlias = Callable[[Images, Images], Scores]
"""A built full-reference metric: (images, references) -> scores.

Both are float32 ``(N, 3, H, W)`` in [0, 1], of one shape; scores are float32 ``(N,)``, finite. Its networks are in
evaluation mode with their parameters frozen; gradients flow to the images if `MetricInfo.differentiable` says so.
"""


class FullReferenceMetric(Metric, Builds[FullReferenceScore]):
    """Scores an image against its reference: fidelity, perceptual distance or privacy leakage."""

    call = Call(images=IMAGES, reference=IMAGES, returns=SCORES, by_row=True)
