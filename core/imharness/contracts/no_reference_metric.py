"""Metrics that score an image alone, without its reference."""

from collections.abc import Callable
from typing import TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric import Metric
from imharness.contracts.values import IMAGES, SCORES, Images, Scores

NoReferenceScore: TypeAlias = Callable[[Images], Scores]
"""A built no-reference metric: images -> scores.

Images are float32 ``(N, 3, H, W)`` in [0, 1] of any size; scores are float32 ``(N,)``, finite. Its networks are in
evaluation mode with their parameters frozen; gradients flow to the images if `MetricInfo.differentiable` says so.
"""


class NoReferenceMetric(Metric, Builds[NoReferenceScore]):
    """Scores an image alone. The score of image i must depend only on image i, whatever else is in the batch."""

    call = Call(images=IMAGES, returns=SCORES, by_row=True)
