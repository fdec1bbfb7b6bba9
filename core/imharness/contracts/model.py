"""Target classifiers: networks whose training set or training images are to be protected."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

from imharness.components.component import Component

if TYPE_CHECKING:
    import torch


class NetworkFactory(Protocol):
    """A built model: makes a freshly initialised classifier for inputs of one shape."""

    def __call__(self, shape: tuple[int, ...], classes: int, rng: torch.Generator, /) -> torch.nn.Module: ...


class Model(Component):
    """A classifier architecture with its initialisation."""

    kind: ClassVar[str] = "model"
    trained: ClassVar[bool] = False
    """The factory returns trained weights, whatever `rng` is, and raises `UsageError` where they do not fit."""

    @abstractmethod
    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory whose networks live on `device` and return logits ``(N, classes)``."""
