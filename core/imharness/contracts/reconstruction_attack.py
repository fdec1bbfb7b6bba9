"""Gradient leakage: attacks that rebuild training images, and defenses of the gradient or of the images."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from imharness.components.component import Component

if TYPE_CHECKING:
    import torch

    from imharness.contracts.track import Progress
    from imharness.contracts.types import Gradients, Images
    from imharness.randomness import ImageRng


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


@dataclass(frozen=True)
class ImagePool:
    """Further images that a participant holds, float32 ``(M, 3, H, W)``, with targets ``(M, classes)``."""

    images: Images
    targets: torch.Tensor


class ProtectImages(Protocol):
    """A built image protection: images ``(N, 3, H, W)`` and targets ``(N, classes)`` in, both of the same shape out."""

    def __call__(
        self, images: Images, targets: torch.Tensor, pool: ImagePool, rng: ImageRng, /
    ) -> tuple[Images, torch.Tensor]: ...


class ImageProtection(Component):
    """Changes images and labels before a gradient is computed from them, in training and in sharing."""

    kind: ClassVar[str] = "defense"

    @abstractmethod
    def build(self, device: torch.device) -> ProtectImages:
        """Return the protection as a callable."""
