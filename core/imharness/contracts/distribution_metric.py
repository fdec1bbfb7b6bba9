from collections.abc import Callable
from typing import TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric import Metric
from imharness.contracts.values import IMAGES, NUMBER, Images

DistributionScore: TypeAlias = Callable[[Images, Images], float]
"""A built distribution metric; returns one number."""


class DistributionMetric(Metric, Builds[DistributionScore]):
    """Scores a whole set of images against a set of references, as FID does."""

    call = Call(images=IMAGES, reference=IMAGES, returns=NUMBER)
