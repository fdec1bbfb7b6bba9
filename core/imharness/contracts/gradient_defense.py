"""Defenses of shared gradients: what a participant of federated learning does before it sends them."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import GRADIENTS, STREAMS, Gradients

ProtectGradients: TypeAlias = Callable[[Gradients, ImageRng], Gradients]
"""A built gradient defense: gradients, streams -> gradients of the same names and shapes.

Name -> float32 ``(N, *parameter.shape)``, one gradient for each image or batch, in any range; one stream for each.
Row i of the result depends on row i alone, and is finite where the gradient that came in was.
"""


class GradientDefense(Component, Builds[ProtectGradients]):
    """Changes gradients before they are shared."""

    kind: ClassVar[str] = "defense"
    call = Call(gradients=GRADIENTS, rng=STREAMS, returns=GRADIENTS, by_row=True)
