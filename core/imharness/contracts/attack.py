"""Attacks change images so that a metric's score rises."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from imharness.components.component import Component, Info
from imharness.errors import UsageError

if TYPE_CHECKING:
    import torch

    from imharness.contracts.track import Progress
    from imharness.contracts.types import Images, Scores
    from imharness.randomness import ImageRng

Access = Literal["white_box", "black_box"]
Norm = Literal["linf", "l2", "l0", "unrestricted"]
STRENGTHS = ("weak", "medium", "strong")


class AttackInfo(Info):
    """`access`: are gradients read. `norm`: of the declared budget. `strengths`: weak, medium, strong as fields.

    `distortion`: the distance that defines a strength.
    """

    access: Access
    norm: Norm
    strengths: Mapping[str, Mapping[str, Any]]
    distortion: Literal["linf", "ssim", "psnr"] = "linf"


class Budget(BaseModel):
    """What an attack promises: the runner refuses images beyond it.

    `radius` is in the unit of `info.norm` on images in [0, 1]; `queries` counts scores per image.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    radius: float | None = Field(default=None, gt=0)
    queries: int | None = Field(default=None, ge=1)


class Target(Protocol):
    """The one window from an attack to what it attacks: a score per image, higher = the attack does better.

    Call it with ``(N, 3, H, W)`` for the N images of the batch in their order, or with ``(N * k, 3, H, W)`` where k
    candidates of one image stand in a row; it returns ``(N,)`` or ``(N * k,)``. Differentiable for white-box attacks
    only. Each image has its own query budget.
    """

    differentiable: bool
    lower: float
    upper: float

    def __call__(self, images: Images) -> Scores: ...

    @property
    def queries(self) -> torch.Tensor:
        """int64 ``(N,)``: scores asked for so far, per image."""


class Perturb(Protocol):
    """A built attack: returns the attacked images, float32, same shape, in [0, 1], within the budget."""

    def __call__(self, images: Images, target: Target, rng: ImageRng, /) -> Images: ...


class BaseAttack(Component):
    """What all attacks share; derive from `Attack` or `FittedAttack`."""

    kind: ClassVar[str] = "attack"
    info: ClassVar[AttackInfo]

    def budget(self) -> Budget:
        """Return the declared budget of this recipe."""
        return Budget()

    def at(self, strength: str) -> Self:
        """Return this attack at a strength; fields that it does not name stay."""
        if strength not in self.info.strengths:
            known = ", ".join(self.info.strengths)
            raise UsageError(f"{self.info.id} has no strength {strength!r}; it declares: {known}.")
        return self.with_parameters(**self.info.strengths[strength])


class Attack(BaseAttack):
    """An attack that needs nothing but the images and the target."""

    @abstractmethod
    def build(self, device: torch.device) -> Perturb:
        """Return the attack as a callable."""


class FittedAttack(BaseAttack):
    """An attack with a part that is trained once per target and then used for every image and strength."""

    fit_fields: ClassVar[tuple[str, ...]] = ()
    """The fields that training depends on; attacks that agree in them share one training."""

    def unscaled(self) -> Self:
        """Return this attack with all fields that training does not depend on at their defaults."""
        return type(self).model_validate({name: getattr(self, name) for name in self.fit_fields})

    @abstractmethod
    def fit(self, images: Images, target: Target, rng: torch.Generator, progress: Progress) -> dict[str, torch.Tensor]:
        """Train on `images` and return tensors by name. The target counts no queries here."""

    @abstractmethod
    def build(self, device: torch.device, fitted: Mapping[str, torch.Tensor]) -> Perturb:
        """Return the attack as a callable, given what `fit` returned."""
