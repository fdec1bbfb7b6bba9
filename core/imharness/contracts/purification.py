"""Purifications: defenses that clean an image before the metric sees it."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric_defense import MetricDefense
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import IMAGES, SHAPE, STREAMS, ImageBatch, Images

Purifier: TypeAlias = Callable[[Images, ImageRng], Images]
"""A built purification: (images, streams) -> images.

Images are float32 ``(N, 3, H, W)`` in [0, 1] before and after. Height and width may change, up to 4 times the pixels; N
may not. Image i of the result depends only on image i and stream i.
"""
Inverse: TypeAlias = Callable[[Images, tuple[int, ...], ImageRng], Images]
"""A built inverse: (defended images, the originals' shape (3, H, W), streams) -> images ``(N, 3, H, W)`` in [0, 1].

The streams repeat the draws of the purifier.
"""


class Purification(MetricDefense, Builds[Purifier]):
    """A defense of the input: it cleans images before the metric sees them."""

    call = Call(images=IMAGES, rng=STREAMS, returns=ImageBatch(bound="images"), by_row=True)
    inverse_call: ClassVar = Call(
        images=IMAGES, shape=SHAPE, rng=STREAMS, returns=ImageBatch(like="shape"), by_row=True
    )

    def inverse(self, device: torch.device) -> Inverse | None:
        """Return a function that moves pixels back to where they were, or None if there is none.

        It may also bring whole channels back into their order, and changes no value otherwise. It serves only to
        compare a defended image with the original.
        """
        return None
