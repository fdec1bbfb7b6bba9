"""Gradient leakage: attacks that rebuild training images, and defenses of the gradient."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

from harness.contracts.component import Component

if TYPE_CHECKING:
    import torch

    from harness.contracts.track import Progress
    from harness.randomness import ImageRng
    from harness.types import Gradients, Images


class Reconstruct(Protocol):
    """A built reconstruction attack.

    `gradients`: of the cross-entropy with respect to each parameter, one per image; `model` gave them; `shape` is
    (3, H, W). Returns ``(N, 3, H, W)`` in [0, 1].
    """

    def __call__(
        self,
        gradients: Gradients,
        model: torch.nn.Module,
        shape: tuple[int, int, int],
        rng: ImageRng,
        progress: Progress,
        /,
    ) -> Images: ...


class ReconstructionAttack(Component):
    """Rebuilds private images from the gradients a participant shared."""

    kind: ClassVar[str] = "attack"

    @abstractmethod
    def build(self, device: torch.device) -> Reconstruct:
        """Return the attack as a callable."""


class ProtectGradients(Protocol):
    """A built gradient defense: returns gradients of the same names and shapes."""

    def __call__(self, gradients: Gradients, rng: ImageRng, /) -> Gradients: ...


class GradientDefense(Component):
    """Changes gradients before they are shared."""

    kind: ClassVar[str] = "defense"

    @abstractmethod
    def build(self, device: torch.device) -> ProtectGradients:
        """Return the defense as a callable."""
