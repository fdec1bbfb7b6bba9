"""Metrics of a whole set of images, such as the Fréchet distance of features (FID, Heusel et al., NeurIPS 2017)."""

from collections.abc import Callable
from typing import TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric import Metric
from imharness.contracts.values import IMAGES, NUMBER, Images

DistributionScore: TypeAlias = Callable[[Images, Images], float]
"""A built distribution metric: images ``(N, 3, H, W)``, references ``(M, 3, H, W)`` -> one finite number.

Both are float32 in [0, 1]; N and M may differ.
"""


class DistributionMetric(Metric, Builds[DistributionScore]):
    """Scores a whole set of images against a set of references, as FID does."""

    call = Call(images=IMAGES, reference=IMAGES, returns=NUMBER)
