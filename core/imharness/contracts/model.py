"""Target classifiers: networks whose training set or training images are to be protected."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import torch

from imharness.components.component import Component
from imharness.contracts.call import Call
from imharness.contracts.values import COUNT, GENERATOR, NETWORK, SHAPE

NetworkFactory: TypeAlias = Callable[[tuple[int, ...], int, torch.Generator], torch.nn.Module]
"""A built model: makes a freshly initialised classifier for inputs of one shape, (shape, classes, rng) given."""


class Model(Component):
    """A classifier architecture with its initialisation."""

    kind: ClassVar[str] = "model"
    call = Call(shape=SHAPE, classes=COUNT, rng=GENERATOR, returns=NETWORK, own_gradients=True)
    trained: ClassVar[bool] = False
    """The factory returns trained weights, whatever `rng` is, and raises `UsageError` where they do not fit."""

    @abstractmethod
    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory whose networks live on `device` and return logits ``(N, classes)``."""
