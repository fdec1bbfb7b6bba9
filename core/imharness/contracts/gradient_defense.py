"""Defenses that change gradients before they are shared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import torch

from imharness.components.component import Component
from imharness.contracts.call import Call
from imharness.contracts.types import Gradients
from imharness.contracts.values import GRADIENTS, STREAMS
from imharness.randomness import ImageRng

ProtectGradients: TypeAlias = Callable[[Gradients, ImageRng], Gradients]
"""A built gradient defense: returns gradients of the same names and shapes."""


class GradientDefense(Component):
    """Changes gradients before they are shared."""

    kind: ClassVar[str] = "defense"
    call = Call(gradients=GRADIENTS, rng=STREAMS, returns=GRADIENTS, by_row=True)

    @abstractmethod
    def build(self, device: torch.device) -> ProtectGradients:
        """Return the defense as a callable."""
