"""Attacks change images so that a metric's score moves, within a budget that they declare.

An attack sees what it attacks only through a `Target`, which gives one score per image; the attack raises this score,
or, if it says so, moves it either way.
The harness adapts the sign to the metric's direction, puts the defense in front of the metric if the attack is
adaptive, counts queries, and refuses results beyond the declared budget.
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
        access: ``white_box`` attacks read gradients of the target, ``black_box`` attacks only its scores.
        norm: the norm of the radius of the declared budget; see `Budget`.
        strengths: ``weak``, ``medium`` and ``strong`` -> the values of fields that give the attack this strength.
        distortion: the distance by which the strengths of several attacks are matched: ``linf`` on [0, 1], ``ssim``, or
            ``psnr`` in dB.
        raises: whether it raises every score; otherwise it moves each one up or down, to reverse the order of images.
    """

    access: Literal["white_box", "black_box"]
    norm: Literal["linf", "l2", "l0", "unrestricted"]
    strengths: Mapping[str, Mapping[str, Any]]
    distortion: Literal["linf", "ssim", "psnr"] = "linf"
    raises: bool = True


class Budget(BaseModel):
    """What an attack promises. The runner refuses images beyond it with a `ContractError` and never clips them.

    Attributes:
        radius: greatest distance from the original, in `info.norm` on images in [0, 1]: the largest change of a value
            (``linf``, such as 4/255), the Euclidean norm over all values (``l2``), or the number of pixels that change
            (``l0``). None means no promise.
        queries: greatest number of evaluations of the target per image, at least 1. None means no promise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    radius: float | None = Field(default=None, gt=0)
    queries: int | None = Field(default=None, ge=1)


class Target(Protocol):
    """All that an attack sees of what it attacks: one score per image; a higher score means a better attack.

    Call it with float32 ``(N, 3, H, W)`` in [0, 1], the N images of the batch in their order, or with
    ``(N * k, 3, H, W)``, where the k candidates for one image follow each other. It returns float32 ``(N,)`` or
    ``(N * k,)``.

    What is trained in `FittedAttack.fit` may ask about any of the training images, in any order and number. It says in
    `rows` which training image each image was made from: a metric that compares needs to know.

    Attributes:
        differentiable: whether gradients flow back to the images; only for white-box attacks.
        lower: least score on natural images, as the metric declares it, with the sign of the scores returned here.
        upper: greatest score on natural images, likewise.

    Raises:
        QueryBudgetExceeded: an image was evaluated more often than `Budget.queries` allows; each image has its own
            count.
        ContractError: the number of images is not a multiple of N, or it is not known which training images they are.
    """

    differentiable: bool
    lower: float
    upper: float

    def __call__(self, images: Images, rows: torch.Tensor | None = None) -> Scores: ...

    @property
    def queries(self) -> torch.Tensor:
        """Evaluations of each image so far, int64 ``(N,)``; one score of a random defense may average several."""


Perturb: TypeAlias = Callable[[Images, Target, ImageRng], Images]
"""A built attack: (images, target, streams) -> attacked images.

Images are float32 ``(N, 3, H, W)`` in [0, 1], multiples of 1/255, and there is one stream for each. The result has the
same shape, is float32 in [0, 1] and keeps the budget; the harness rounds it to multiples of 1/255. Image i of the
result depends only on image i and stream i.
"""
TARGET = Only("Target")


class BaseAttack(Component):
    """What all attacks share. Derive from `Attack` or `FittedAttack`."""

    kind: ClassVar[str] = "attack"
    info: ClassVar[AttackInfo]

    def budget(self) -> Budget:
        """Return the budget that this attack declares with its parameters; by default it promises nothing."""
        return Budget()

    def at(self, strength: str) -> Self:
        """Return this attack at a strength; fields that the strength does not name keep their values.

        Raises:
            UsageError: the attack declares no such strength.
        """
        if strength not in self.info.strengths:
            strengths, problem = self.info.strengths, f"{self.info.id} has no strength {strength!r}"
            raise UsageError(unknown_name(problem, strength, strengths, "It declares"))
        return self.with_parameters(**self.info.strengths[strength])


class AttackCall(Call):
    """A call whose result must lie within the attack's budget."""

    def check(self, component: Any, result: Any, arguments: Mapping[str, Any]) -> Images:
        """Return the attacked images."""
        attacked: Images = super().check(component, result, arguments)
        check_budget(component, arguments["images"], attacked)
        return attacked


def check_budget(attack: BaseAttack, images: Images, attacked: Images) -> None:
    """Raise `ContractError` if an attack went beyond its declared radius; its images are never clipped."""
    radius, norm = attack.budget().radius, attack.info.norm
    if radius is None or norm == "unrestricted":
        return
    change = (attacked - images).flatten(1)
    if norm == "linf":
        size = change.abs().amax(dim=1)
    elif norm == "l2":
        size = torch.linalg.vector_norm(change, dim=1)
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
