"""Attacks that rebuild private images from shared gradients (gradient inversion, Zhu, Liu & Han, NeurIPS 2019)."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng
from imharness.contracts.track import Progress
from imharness.contracts.values import NETWORK, PROGRESS, STREAMS, Gradients, ImageBatch, Images, NamedTensors, Numbers

Reconstruct: TypeAlias = Callable[[Gradients, torch.nn.Module, tuple[int, int, int], ImageRng, Progress], Images]
"""A built reconstruction attack: (gradients, model, shape, streams, progress) -> images.

Gradients are those of the mean cross-entropy with respect to each parameter, by its name: float32
``(B, *parameter.shape)``, one for each batch of `ReconstructionAttack.batches`. The model is the one that gave them, in
evaluation mode; the attack may use it but not change it. `shape` is (3, H, W). The result is float32 ``(N, 3, H, W)``
in [0, 1], one image for each stream.
"""
SIZE = Numbers("tuple[int, int, int]", whole=True, many=True)


class ReconstructionAttack(Component, Builds[Reconstruct]):
    """Rebuilds private images from the gradients that a participant shared."""

    kind: ClassVar[str] = "attack"
    call = Call(
        gradients=NamedTensors("Gradients"),
        model=NETWORK,
        shape=SIZE,
        rng=STREAMS,
        progress=PROGRESS,
        returns=ImageBatch(like="shape"),
        own_gradients=True,
    )

    def batches(self, images: int) -> list[list[int]]:
        """Return the positions of the images that share each gradient; by default each image has its own gradient."""
        return [[position] for position in range(images)]
