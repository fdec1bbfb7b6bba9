"""What all metrics share: the direction and the range of their scores."""

import math
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from imharness.contracts.component import Component, Info
from imharness.errors import ContractError

NARROWEST, WIDEST = 1e-30, 1e30
"""The least and the greatest range of scores: float32 can divide by it."""


class MetricInfo(Info):
    """What a reader of the tables must know about a metric.

    Attributes:
        higher_means: what a higher score means: better or worse quality, or more or less leakage.
        bounds: finite (lower, upper) of the scores on natural images; attacks and relative scores need them.
        unit: the unit of the score, such as "dB"; empty if it has none.
        differentiable: whether gradients flow from scores to images.
    """

    higher_means: Literal["better_quality", "worse_quality", "more_leakage", "less_leakage"]
    bounds: tuple[float, float] | None = None
    unit: str = ""
    differentiable: bool = True
    labelled: str = ""
    """What readers of a table must know about it, in a few words: "a small network trained for this package"."""
    architecture: str = ""
    """What its network is made of, in a word or two, such as "CNN" or "transformer"; tables group metrics by it."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.bounds is None:
            return self
        if not -math.inf < self.bounds[0] < self.bounds[1] < math.inf:
            raise ValueError(f"bounds must be finite (lower, upper) with lower < upper, got {self.bounds}")
        if not NARROWEST <= self.bounds[1] - self.bounds[0] <= WIDEST:
            raise ValueError(f"bounds must be {NARROWEST:g} to {WIDEST:g} apart, got {self.bounds}")
        return self


class Metric(Component):
    """What all metrics share. Derive from `NoReferenceMetric`, `FullReferenceMetric` or `DistributionMetric`."""

    kind: ClassVar[str] = "metric"
    info: ClassVar[MetricInfo]

    @property
    def bounds(self) -> tuple[float, float]:
        """The declared (lower, upper). Raises `ContractError` if there are none: no range is ever assumed."""
        if self.info.bounds is None:
            raise ContractError(
                f"{self.info.id} declares no bounds; relative scores need them: set MetricInfo(bounds=(lower, upper))"
            )
        return self.info.bounds

    @property
    def closeness(self) -> int:
        """+1 if a higher score means closer to the reference (and so more leakage), else -1."""
        return 1 if self.info.higher_means in ("better_quality", "more_leakage") else -1
