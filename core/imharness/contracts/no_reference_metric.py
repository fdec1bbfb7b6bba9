from collections.abc import Callable
from typing import TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric import Metric
from imharness.contracts.values import IMAGES, SCORES, Images, Scores

NoReferenceScore: TypeAlias = Callable[[Images], Scores]
"""A built no-reference metric; parameters frozen, evaluation mode."""


class NoReferenceMetric(Metric, Builds[NoReferenceScore]):
    """Scores an image alone. It must score image i from image i only, whatever else is in the batch."""

    call = Call(images=IMAGES, returns=SCORES, by_row=True)
