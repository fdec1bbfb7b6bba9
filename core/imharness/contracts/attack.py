"""Attacks change images so that a metric's score rises."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

import torch
from pydantic import BaseModel, ConfigDict, Field

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component, Info
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import IMAGES, SAME_IMAGES, STREAMS, TOLERANCE, Images, Only, Scores
from imharness.errors import ContractError, UsageError, unknown_name


class AttackInfo(Info):
    """`access`: are gradients read. `norm`: of the declared budget. `strengths`: weak, medium, strong as fields.

    `distortion`: the distance that defines a strength.
    """

    access: Literal["white_box", "black_box"]
    norm: Literal["linf", "l2", "l0", "unrestricted"]
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
        """int64 ``(N,)``: evaluations so far, per image; one score of a random defense may average several."""


Perturb: TypeAlias = Callable[[Images, Target, ImageRng], Images]
"""A built attack: returns the attacked images, float32, same shape, in [0, 1], within the budget."""
TARGET = Only("Target")


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
            known, said = self.info.strengths, f"{self.info.id} has no strength {strength!r}"
            raise UsageError(unknown_name(said, strength, known, "It declares"))
        return self.with_parameters(**self.info.strengths[strength])


class AttackCall(Call):
    """A call whose result must lie within the attack's budget."""

    def check(self, component: Any, result: Any, given: Mapping[str, Any]) -> Images:
        """Return the attacked images."""
        attacked: Images = super().check(component, result, given)
        check_budget(component, given["images"], attacked)
        return attacked


def check_budget(attack: BaseAttack, images: Images, attacked: Images) -> None:
    """Raise `ContractError` when an attack went beyond its declared radius; it is never clipped."""
    radius, norm = attack.budget().radius, attack.info.norm
    if radius is None or norm == "unrestricted":
        return
    change = (attacked - images).flatten(1)
    if norm == "linf":
        size = change.abs().amax(dim=1)
    elif norm == "l2":
        size = change.norm(dim=1)
    else:
        size = (attacked != images).any(dim=1).flatten(1).sum(dim=1).float()
    worst = float(size.max())
    if worst > radius * (1 + 1e-4) + TOLERANCE:
        raise ContractError(
            f"{attack.label}: expected {norm} distance at most {radius:.6g}, got {worst:.6g}; "
            "declare a larger budget or project the result"
        )


class Attack(BaseAttack, Builds[Perturb]):
    """An attack that needs nothing but the images and the target."""

    call = AttackCall(images=IMAGES, target=TARGET, rng=STREAMS, returns=SAME_IMAGES, own_gradients=True)
