"""Metrics that score an image alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import torch

from imharness.contracts.call import Call
from imharness.contracts.metric import Metric
from imharness.contracts.types import Images, Scores
from imharness.contracts.values import IMAGES, SCORES

NoReferenceScore: TypeAlias = Callable[[Images], Scores]
"""A built no-reference metric."""


class NoReferenceMetric(Metric):
    """Scores an image alone. It must score image i from image i only, whatever else is in the batch."""

    call = Call(images=IMAGES, returns=SCORES, by_row=True)

    @abstractmethod
    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric as a callable; parameters frozen, evaluation mode."""
