"""Defenses of an image-quality metric."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from pydantic import Field

from imharness.components.component import Component, Info

if TYPE_CHECKING:
    import torch

    from imharness.contracts.metric import TrainableMetric, TuningPlan
    from imharness.contracts.types import Images, Scores
    from imharness.contracts.weight_training import Trained, TrainingContext
    from imharness.randomness import ImageRng


class DefenseInfo(Info):
    """`differentiable`: may an adaptive attack read its gradient. `random`: does it draw from `rng`.

    `group`: a word for the kind of method, for tables by group. `grid`: field -> the values that a parameter study
    tries, selected by ``method[*]``.
    """

    differentiable: bool
    random: bool = False
    group: str = "other"
    grid: Mapping[str, Sequence[Any]] = Field(default_factory=dict)


class Purifier(Protocol):
    """A built purification: returns images in [0, 1]; the size may change, the count may not."""

    def __call__(self, images: Images, rng: ImageRng, /) -> Images: ...


class MetricDefense(Component):
    """What the defenses of a metric share; derive from `Purification`, `TrainingDefense` or `Certification`."""

    kind: ClassVar[str] = "defense"
    info: ClassVar[DefenseInfo]

    def variants(self) -> list[Self]:
        """Return this defense at each value of its grid, or alone."""
        return [self.with_parameters(**{f: v}) for f, values in self.info.grid.items() for v in values] or [self]

    def without_grid(self) -> Self:
        """Return this defense with the fields of its grid at their defaults: what all its variants are variants of."""
        return type(self).model_validate({k: v for k, v in self.model_dump().items() if k not in self.info.grid})


class Purification(MetricDefense):
    """A defense of the input: it cleans images before the metric sees them."""

    @abstractmethod
    def build(self, device: torch.device) -> Purifier:
        """Return the defense as a callable."""


class Tune(Protocol):
    """A built training defense: trains a metric's network further and returns the weights and their card.

    The workshop's data has the roles ``train`` and ``test``, with ``mos``; its components those of `requires`.
    """

    def __call__(self, metric: TrainableMetric, plan: TuningPlan, workshop: TrainingContext, /) -> Trained: ...


class TrainingDefense(MetricDefense):
    """A defense of the weights: it trains a metric further, once, with `harness train`; the images stay as they are.

    Its weights are found by the label of the defense and the id of the metric: see `TrainableMetric.training`.
    """

    def requires(self) -> Mapping[str, tuple[str, str]]:
        """Return role -> (kind, name) of the components that training reads."""
        return {}

    @abstractmethod
    def build(self, device: torch.device) -> Tune:
        """Return the training as a callable."""


@dataclass(frozen=True)
class Certificate:
    """What holds for each image, all ``(N,)``, with the confidence that the method states.

    `value`: the score of the smoothed metric. `radius`: the Euclidean distance, images in [0, 1], within which the
    value stays (NaN for a method that bounds the score instead). `delta`: the width of the interval that holds the
    smoothed score for every image within the method's own radius (NaN for a method that gives a radius). `abstained`:
    no promise.
    """

    value: torch.Tensor
    radius: torch.Tensor
    delta: torch.Tensor
    abstained: torch.Tensor


class Smooth(Protocol):
    """A built noisy pass: scores of V versions of S noisy copies, ``(N, S, V)``; memory does not grow with S."""

    def __call__(self, score: Callable[[Images], Scores], images: Images, rng: ImageRng, /) -> torch.Tensor: ...


class Certify(Protocol):
    """A built certification: scores of noisy copies and the metric's (lower, upper) -> certificate."""

    def __call__(self, scores: torch.Tensor, bounds: tuple[float, float], /) -> Certificate: ...


class Certification(MetricDefense):
    """A defense that proves how much a score can change: it scores noisy copies, then reads a promise off them."""

    def noisy(self) -> Certification:
        """Return the certification whose noisy pass this one reads; several that agree share one pass."""
        return self

    @abstractmethod
    def smooth(self, device: torch.device) -> Smooth:
        """Return the noisy pass."""

    @abstractmethod
    def build(self, device: torch.device) -> Certify:
        """Return the certification."""
