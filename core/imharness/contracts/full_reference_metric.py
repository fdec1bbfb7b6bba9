from collections.abc import Callable
from typing import TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric import Metric
from imharness.contracts.values import IMAGES, SCORES, Images, Scores

FullReferenceScore: TypeAlias = Callable[[Images, Images], Scores]
"""A built full-reference metric, of images and references of one shape; parameters frozen, evaluation mode."""


class FullReferenceMetric(Metric, Builds[FullReferenceScore]):
    """Scores an image against its reference: fidelity, perceptual distance or privacy leakage."""

    call = Call(images=IMAGES, reference=IMAGES, returns=SCORES, by_row=True)
