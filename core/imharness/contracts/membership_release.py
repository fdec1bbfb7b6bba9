"""Defenses against membership inference that change the outputs of a trained model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch
from pydantic import Field

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component, Info
from imharness.contracts.values import GENERATOR, PROBABILITIES, Record


@dataclass(frozen=True)
class DefenderOutputs:
    """Outputs of the model on rows that the defender holds: probabilities, float32 in [0, 1].

    Attributes:
        member: ``(n, classes)``, rows that the model was trained on.
        reference: ``(m, classes)``, rows of the same kind that it was not trained on.
    """

    member: torch.Tensor
    reference: torch.Tensor


ReleaseOutputs: TypeAlias = Callable[[torch.Tensor, DefenderOutputs, torch.Generator], torch.Tensor]
"""A built release defense: (outputs, held, rng) -> outputs.

Outputs are probabilities, float32 ``(n, classes)`` in [0, 1]; the result has the same shape and range. A row may
depend on the other rows of the call.
"""


class MembershipDefenseInfo(Info):
    """What the harness must know about a defense against membership inference.

    `baseline` says that this is plain training, which an adversary who does not know the defense gives its shadow
    models.
    """

    baseline: bool = Field(default=False)


HELD = Record(DefenderOutputs, member=PROBABILITIES, reference=PROBABILITIES)


class MembershipRelease(Component, Builds[ReleaseOutputs]):
    """A defense against membership inference that changes the outputs of a trained model before they are released."""

    kind: ClassVar[str] = "defense"
    info: ClassVar[MembershipDefenseInfo]
    call = Call(outputs=PROBABILITIES, held=HELD, rng=GENERATOR, returns=PROBABILITIES)
