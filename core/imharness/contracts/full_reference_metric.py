"""Metrics that compare an image with its reference."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import torch

from imharness.contracts.call import Call
from imharness.contracts.metric import Metric
from imharness.contracts.types import Images, Scores
from imharness.contracts.values import IMAGES, SCORES

FullReferenceScore: TypeAlias = Callable[[Images, Images], Scores]
"""A built full-reference metric; `images` and `reference` have one shape."""


class FullReferenceMetric(Metric):
    """Scores an image against its reference: fidelity, perceptual distance or privacy leakage."""

    call = Call(images=IMAGES, reference=IMAGES, returns=SCORES, by_row=True)

    @abstractmethod
    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric as a callable; parameters frozen, evaluation mode."""
