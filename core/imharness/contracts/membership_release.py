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
    """Probabilities of the model on rows that the defender holds: members, and rows that are none."""

    member: torch.Tensor
    reference: torch.Tensor


ReleaseOutputs: TypeAlias = Callable[[torch.Tensor, DefenderOutputs, torch.Generator], torch.Tensor]
"""A built release defense: probabilities ``(n, classes)`` in, probabilities of the same shape out."""


class MembershipDefenseInfo(Info):
    """`baseline`: this is plain training, the row that shadow models of a non-adaptive adversary use."""

    baseline: bool = Field(default=False)


HELD = Record(DefenderOutputs, member=PROBABILITIES, reference=PROBABILITIES)


class MembershipRelease(Component, Builds[ReleaseOutputs]):
    """A defense against membership inference that changes the outputs of a trained model before they are released."""

    kind: ClassVar[str] = "defense"
    info: ClassVar[MembershipDefenseInfo]
    call = Call(outputs=PROBABILITIES, held=HELD, rng=GENERATOR, returns=PROBABILITIES)
