"""Defenses of a metric's input."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import torch

from imharness.contracts.call import Call
from imharness.contracts.metric_defense import MetricDefense
from imharness.contracts.types import Images
from imharness.contracts.values import IMAGES, STREAMS
from imharness.randomness import ImageRng

Purifier: TypeAlias = Callable[[Images, ImageRng], Images]
"""A built purification: returns images in [0, 1]; the size may change, the count may not."""


class Purification(MetricDefense):
    """A defense of the input: it cleans images before the metric sees them."""

    call = Call(images=IMAGES, rng=STREAMS, returns=IMAGES, by_row=True)

    @abstractmethod
    def build(self, device: torch.device) -> Purifier:
        """Return the defense as a callable."""
