"""Metrics that compare two sets of images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import torch

from imharness.contracts.call import Call
from imharness.contracts.metric import Metric
from imharness.contracts.types import Images
from imharness.contracts.values import IMAGES, NUMBER

DistributionScore: TypeAlias = Callable[[Images, Images], float]
"""A built distribution metric; returns one number."""


class DistributionMetric(Metric):
    """Scores a whole set of images against a set of references, as FID does."""

    call = Call(images=IMAGES, reference=IMAGES, returns=NUMBER)

    @abstractmethod
    def build(self, device: torch.device) -> DistributionScore:
        """Return the metric as a callable."""
