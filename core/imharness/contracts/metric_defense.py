"""What all defenses of a metric share: purifications, trainings and certifications."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import Field

from imharness.contracts.component import Component, Info


class DefenseInfo(Info):
    """What the harness and a reader of the tables must know about a defense.

    Attributes:
        differentiable: whether an adaptive attack may read its gradient.
        random: whether it draws from `rng`; adaptive attacks then average several draws (expectation over
            transformation, Athalye et al., ICML 2018).
        group: a word for the kind of method, for tables by group.
        grid: field -> the values that a parameter study tries; ``method[*]`` selects them.
        stand_in: the id of the purification whose gradient white-box attacks read if this one has none (BPDA, Athalye,
            Carlini & Wagner, ICML 2018, section 4.1); fields that both have get the values of this one. Empty means the
            identity.
    """

    differentiable: bool
    random: bool = False
    group: str = "other"
    grid: Mapping[str, Sequence[Any]] = Field(default_factory=dict)
    stand_in: str = ""


class MetricDefense(Component):
    """What the defenses of a metric share. Derive from `Purification`, `TrainingDefense` or `Certification`."""

    kind: ClassVar[str] = "defense"
    info: ClassVar[DefenseInfo]

    def variants(self) -> list[Self]:
        """Return this defense at each value of its grid, or only itself if it has no grid."""
        variants = [
            self.with_parameters(**{name: value}) for name, values in self.info.grid.items() for value in values
        ]
        return variants or [self]

    def without_grid(self) -> Self:
        """Return this defense with the fields of its grid at their defaults: what all its variants have in common."""
        others = {name: value for name, value in self.model_dump().items() if name not in self.info.grid}
        return type(self).model_validate(others)
