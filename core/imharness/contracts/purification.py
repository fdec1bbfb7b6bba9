from collections.abc import Callable
from typing import ClassVar, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric_defense import MetricDefense
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import IMAGES, SHAPE, STREAMS, ImageBatch, Images

Purifier: TypeAlias = Callable[[Images, ImageRng], Images]
"""A built purification: returns images in [0, 1]; the size may change, the count may not."""
Inverse: TypeAlias = Callable[[Images, tuple[int, ...], ImageRng], Images]
"""Defended images, the originals' shape (3, H, W) and streams that draw what the purifier drew -> images."""


class Purification(MetricDefense, Builds[Purifier]):
    """A defense of the input: it cleans images before the metric sees them."""

    call = Call(images=IMAGES, rng=STREAMS, returns=IMAGES, by_row=True)
    inverse_call: ClassVar = Call(images=IMAGES, shape=SHAPE, rng=STREAMS, returns=ImageBatch("shape"), by_row=True)

    def inverse(self, device: torch.device) -> Inverse | None:
        """Return what moves pixels back to where they were, for comparisons with the original only; None: nothing."""
        return None
