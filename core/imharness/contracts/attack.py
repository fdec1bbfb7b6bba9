"""Attacks change images so that a metric's score moves, within a budget that they declare.

An attack sees its target through a `Target` alone: a score per image, which it raises. The harness turns the metric's
direction, puts the defense in front of the metric where the attack is adaptive, counts queries, and refuses results
beyond the declared budget.
"""

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
    """What a reader of the tables must know about an attack.

    Attributes:
        access: ``white_box`` reads gradients of the target, ``black_box`` its scores alone.
        norm: in which the radius of the declared budget is measured, see `Budget`.
        strengths: ``weak``, ``medium`` and ``strong`` -> the fields that make the attack as strong.
        distortion: the distance that the strengths of several attacks are matched by: ``linf`` on [0, 1], ``ssim``, or
            ``psnr`` in dB.
    """

    access: Literal["white_box", "black_box"]
    norm: Literal["linf", "l2", "l0", "unrestricted"]
    strengths: Mapping[str, Mapping[str, Any]]
    distortion: Literal["linf", "ssim", "psnr"] = "linf"


class Budget(BaseModel):
    """What an attack promises. The runner refuses images beyond it with a `ContractError`, and never clips them.

    Attributes:
        radius: greatest distance from the original, in `info.norm` on images in [0, 1]: the largest change of a value
            (``linf``, such as 4/255), the Euclidean norm over all values (``l2``), or the number of pixels that change
            (``l0``). None: no promise.
        queries: greatest number of evaluations of the target per image, at least 1. None: no promise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    radius: float | None = Field(default=None, gt=0)
    queries: int | None = Field(default=None, ge=1)


class Target(Protocol):
    """The one window from an attack to what it attacks: a score per image, higher = the attack does better.

    Call it with float32 ``(N, 3, H, W)`` in [0, 1] for the N images of the batch in their order, or with
    ``(N * k, 3, H, W)`` where k candidates of one image stand in a row; it returns float32 ``(N,)`` or ``(N * k,)``.

    Attributes:
        differentiable: whether gradients flow back to the images; for white-box attacks only.
        lower: least score on natural images, as the metric declares it, turned as the scores are.
        upper: greatest score on natural images.

    Raises:
        QueryBudgetExceeded: an image was asked for more often than `Budget.queries` allows; each image has its own
            count.
        ContractError: there are neither N images nor a multiple of N.
    """

    differentiable: bool
    lower: float
    upper: float

    def __call__(self, images: Images) -> Scores: ...

    @property
    def queries(self) -> torch.Tensor:
        """int64 ``(N,)``: evaluations so far, per image; one score of a random defense may average several."""


Perturb: TypeAlias = Callable[[Images, Target, ImageRng], Images]
"""A built attack: images, target, streams -> attacked images.

Images are float32 ``(N, 3, H, W)`` in [0, 1], multiples of 1/255; streams are one for each image. The result has the
same shape, is float32 in [0, 1] and keeps the budget; the harness rounds it to multiples of 1/255. Image i of the
result depends on image i and stream i alone.
"""
TARGET = Only("Target")


class BaseAttack(Component):
    """What all attacks share; derive from `Attack` or `FittedAttack`."""

    kind: ClassVar[str] = "attack"
    info: ClassVar[AttackInfo]

    def budget(self) -> Budget:
        """Return the declared budget of this attack with its parameters; by default it promises nothing."""
        return Budget()

    def at(self, strength: str) -> Self:
        """Return this attack at a strength; fields that the strength does not name stay as they are.

        Raises:
            UsageError: the attack declares no such strength.
        """
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
