"""Controls that leave images alone and map the scores: every order, and every attack on it, stays what it was."""

from abc import abstractmethod
from typing import Any, ClassVar

import torch

from imharness.images import DefenseInfo, Images, Scores, Target
from imharness.tracks import Component


class Rescaling(Component):
    """A strictly increasing map of a metric's scores, in the place of a defense.

    It protects nobody: a measure that it makes small is one that anybody can make small for nothing.
    """

    kind: ClassVar[str] = "defense"
    info: ClassVar[DefenseInfo]

    @abstractmethod
    def rescaled(self, scores: Scores, bounds: tuple[float, float]) -> Scores:
        """Return other scores ``(N,)`` in the same order; differentiable. `bounds`: (lower, upper) of the metric."""


class RescaledTarget:
    """A target whose scores are mapped before an attack sees them. `sign`: -1 for a metric of which less is better."""

    def __init__(self, target: Target, rescaling: Rescaling, bounds: tuple[float, float], sign: int) -> None:
        self._target, self._rescaling, self._bounds, self._sign = target, rescaling, bounds, sign

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __call__(self, images: Images, rows: torch.Tensor | None = None) -> Scores:
        """Return the mapped scores, higher = the attack does better."""
        return self._sign * self._rescaling.rescaled(self._sign * self._target(images, rows), self._bounds)
