"""Recipes: how weights that ship with a plugin were trained."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from harness.contracts.component import Component

if TYPE_CHECKING:
    import torch

    from harness.contracts.dataset import ImageSet, TableSet
    from harness.contracts.track import Progress


@dataclass(frozen=True)
class Trained:
    """Tensors by name, and the figures for the model card."""

    tensors: Mapping[str, torch.Tensor]
    card: Mapping[str, str | float]


class Train(Protocol):
    """A built recipe: trains on the named data sets and returns the weights."""

    def __call__(
        self,
        data: Mapping[str, ImageSet | TableSet],
        rng: torch.Generator,
        progress: Progress,
        /,
    ) -> Trained: ...


class Recipe(Component):
    """Trains weights from data sets of the registry: `harness train NAME`."""

    kind: ClassVar[str] = "recipe"

    def datasets(self) -> Mapping[str, str]:
        """Return role -> data set label, for everything the recipe reads."""
        return {}

    @abstractmethod
    def build(self, device: torch.device) -> Train:
        """Return the training as a callable."""
