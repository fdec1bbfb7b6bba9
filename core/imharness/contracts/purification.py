from collections.abc import Callable
from typing import TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric_defense import MetricDefense
from imharness.contracts.values import IMAGES, STREAMS, Images
from imharness.randomness import ImageRng

Purifier: TypeAlias = Callable[[Images, ImageRng], Images]
"""A built purification: returns images in [0, 1]; the size may change, the count may not."""


class Purification(MetricDefense, Builds[Purifier]):
    """A defense of the input: it cleans images before the metric sees them."""

    call = Call(images=IMAGES, rng=STREAMS, returns=IMAGES, by_row=True)
