from collections.abc import Callable
from typing import ClassVar, TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import GRADIENTS, STREAMS, Gradients

ProtectGradients: TypeAlias = Callable[[Gradients, ImageRng], Gradients]
"""A built gradient defense: returns gradients of the same names and shapes."""


class GradientDefense(Component, Builds[ProtectGradients]):
    """Changes gradients before they are shared."""

    kind: ClassVar[str] = "defense"
    call = Call(gradients=GRADIENTS, rng=STREAMS, returns=GRADIENTS, by_row=True)
