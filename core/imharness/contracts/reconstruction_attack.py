"""Gradient leakage: attacks that rebuild training images from the gradients a participant shared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import torch

from imharness.components.component import Component
from imharness.contracts.call import Call
from imharness.contracts.track import Progress
from imharness.contracts.types import Gradients, Images
from imharness.contracts.values import IMAGE_SHAPE, NETWORK, PROGRESS, STREAMS, ImageBatch, NamedTensors
from imharness.randomness import ImageRng

Reconstruct: TypeAlias = Callable[[Gradients, torch.nn.Module, tuple[int, int, int], ImageRng, Progress], Images]
"""A built reconstruction attack.

`gradients`: of the mean cross-entropy with respect to each parameter, one per batch of `batches`; `model` gave them;
`shape` is (3, H, W). Returns ``(N, 3, H, W)`` in [0, 1], one image per stream of `rng`.
"""


class ReconstructionAttack(Component):
    """Rebuilds private images from the gradients a participant shared."""

    kind: ClassVar[str] = "attack"
    call = Call(
        gradients=NamedTensors("Gradients"), model=NETWORK, shape=IMAGE_SHAPE, rng=STREAMS, progress=PROGRESS,
        returns=ImageBatch(like="shape"), own_gradients=True,
    )  # fmt: skip

    def batches(self, images: int) -> list[list[int]]:
        """Return the positions of the images that share each gradient; by default each image has one of its own."""
        return [[position] for position in range(images)]

    @abstractmethod
    def build(self, device: torch.device) -> Reconstruct:
        """Return the attack as a callable."""
