"""Target classifiers: networks whose training set, or whose training images, are to be protected."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.values import COUNT, GENERATOR, NETWORK, SHAPE

NetworkFactory: TypeAlias = Callable[[tuple[int, ...], int, torch.Generator], torch.nn.Module]
"""A built model: (shape of an input, number of classes, rng) -> a fresh classifier on the device.

The classifier takes float32 ``(N, *shape)`` and returns logits, float32 ``(N, classes)``. Its initial weights depend
only on `rng`. The factory raises `UsageError` for shapes or numbers of classes that the architecture cannot take.
"""


class Model(Component, Builds[NetworkFactory]):
    """A classifier architecture with its initialisation."""

    kind: ClassVar[str] = "model"
    call = Call(shape=SHAPE, classes=COUNT, rng=GENERATOR, returns=NETWORK, own_gradients=True)
    trained: ClassVar[bool] = False
    """Whether the factory returns trained weights, whatever `rng` is; it raises `UsageError` where they do not fit."""
