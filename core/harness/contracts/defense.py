"""Defenses of an image-quality metric."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

from harness.contracts.component import Component, Info

if TYPE_CHECKING:
    import torch

    from harness.randomness import ImageRng
    from harness.types import Images


class DefenseInfo(Info):
    """`differentiable`: may an adaptive attack read its gradient. `random`: does it draw from `rng`."""

    differentiable: bool
    random: bool = False


class Purifier(Protocol):
    """A built purification: returns images in [0, 1]; the size may change, the count may not."""

    def __call__(self, images: Images, rng: ImageRng, /) -> Images: ...


class Purification(Component):
    """A defense of the input: it cleans images before the metric sees them."""

    kind: ClassVar[str] = "defense"
    info: ClassVar[DefenseInfo]

    @abstractmethod
    def build(self, device: torch.device) -> Purifier:
        """Return the defense as a callable."""
