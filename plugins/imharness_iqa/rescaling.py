"""Controls that map scores and leave images as they are: neither the order of scores nor attacks on it change."""

from abc import abstractmethod
from typing import Any, ClassVar

import torch

from imharness.images import DefenseInfo, Images, Scores, Target
from imharness.tracks import Component


class Rescaling(Component):
    """A strictly increasing map of a metric's scores, in the place of a defense.

    It does not protect. If it makes a measure of protection small, anybody can make that measure small without effect.
    """

    kind: ClassVar[str] = "defense"
    info: ClassVar[DefenseInfo]

    @abstractmethod
    def rescaled(self, scores: Scores, bounds: tuple[float, float]) -> Scores:
        """Return other scores ``(N,)`` in the same order; differentiable. `bounds`: (lower, upper) of the metric."""


class RescaledTarget:
    """A target whose scores are mapped before an attack sees them.

    `bounds`: of the metric. `sign`: -1 if the target's scores are the negative ones of the metric, else 1.
    """

    def __init__(self, target: Target, rescaling: Rescaling, bounds: tuple[float, float], sign: int) -> None:
        self._target, self._rescaling, self._bounds, self._sign = target, rescaling, bounds, sign

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __call__(self, images: Images, rows: torch.Tensor | None = None) -> Scores:
        """Return the mapped scores, higher = the attack does better."""
        return self._sign * self._rescaling.rescaled(self._sign * self._target(images, rows), self._bounds)
