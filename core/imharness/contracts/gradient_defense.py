"""Defenses of shared gradients: what a participant in federated learning does to gradients before it sends them."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import GRADIENTS, STREAMS, Gradients

ProtectGradients: TypeAlias = Callable[[Gradients, ImageRng], Gradients]
"""A built gradient defense: (gradients, streams) -> gradients of the same names and shapes.

Gradients are name -> float32 ``(N, *parameter.shape)`` in any range: one gradient, and one stream, for each image or
batch. Row i of the result depends only on row i, and is finite where the given gradient was.
"""


class GradientDefense(Component, Builds[ProtectGradients]):
    """Changes gradients before they are shared."""

    kind: ClassVar[str] = "defense"
    call = Call(gradients=GRADIENTS, rng=STREAMS, returns=GRADIENTS, by_row=True)
