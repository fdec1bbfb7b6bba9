"""Defenses against membership inference that change how the model is trained."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.membership_release import MembershipDefenseInfo
from imharness.contracts.track import Progress
from imharness.contracts.values import GENERATOR, NETWORK, PROGRESS, TRAINED_NETWORK, Only


@dataclass(frozen=True)
class TrainingData:
    """What a defender trains on: the members, and further rows of the same kind that are not members.

    Attributes:
        features: float32 ``(n, *shape)``, those of the members.
        labels: int64 ``(n,)``, classes counted from 0.
        reference_features: float32 ``(m, *shape)``, for regularisation and early stopping, not to be trained on.
        reference_labels: int64 ``(m,)``.
    """

    features: torch.Tensor
    labels: torch.Tensor
    reference_features: torch.Tensor
    reference_labels: torch.Tensor


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how a model is trained without a defense.

    Attributes:
        epochs: passes over the members.
        batch_size: rows per step; the last step of an epoch may have fewer.
        learning_rate: the optimiser's learning rate at the start.
        momentum: the momentum of ``sgd``, at least 0 and below 1; ``adam`` has none.
        weight_decay: the factor by which each parameter is multiplied before it is added to its gradient.
        decay_after: with the schedule ``steps``, the epochs after which the learning rate drops to a tenth; 0: never.
        optimiser: the optimiser.
        schedule: ``steps``, see `decay_after`, or ``cosine``: the rate falls to 0 along half a cosine, epoch by epoch.
        augmentation: ``crop-flip``: each image of a batch is mirrored with probability 1/2 and cropped at random from
            the image with 4 px of reflections around it.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    optimiser: Literal["adam", "sgd"] = "adam"
    decay_after: int = 0
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: Literal["steps", "cosine"] = "steps"
    augmentation: Literal["none", "crop-flip"] = "none"


Network: TypeAlias = torch.nn.Module
TrainPrivately: TypeAlias = Callable[[Network, TrainingData, TrainingPlan, torch.Generator, Progress], Network]
"""A built training defense: (network, data, plan, rng, progress) -> network.

It trains the network in place or returns another one on the same device. The outputs of the returned network are logits
``(n, classes)``, and it is in evaluation mode. All randomness comes from `rng`.
"""
TrainTogether: TypeAlias = Callable[
    [Sequence[Network], Sequence[TrainingData], TrainingPlan, Sequence[torch.Generator], Progress], None
]
"""Trains several networks of one architecture in place, each on its own data and with its own generator.

All have the same number of members. Up to rounding, every network ends as if it were trained alone. All are in
evaluation mode on return.
"""


class TogetherCall(Call):
    """A call that trains the networks it is given."""

    def check(self, component: Component, result: Any, arguments: Mapping[str, Any]) -> None:
        """Raise `ContractError` unless all networks are in evaluation mode."""
        for network in arguments["networks"]:
            self.returns.check(network, arguments, 1, component.label)


class MembershipTraining(Component, Builds[TrainPrivately]):
    """A defense against membership inference that changes how the model is trained."""

    kind: ClassVar[str] = "defense"
    info: ClassVar[MembershipDefenseInfo]
    call = Call(
        network=NETWORK,
        data=Only("TrainingData"),
        plan=Only("TrainingPlan"),
        rng=GENERATOR,
        progress=PROGRESS,
        returns=TRAINED_NETWORK,
        own_gradients=True,
    )
    build_together_call: ClassVar[Call] = TogetherCall(
        networks=Only("Sequence[torch.nn.Module]"),
        data=Only("Sequence[TrainingData]"),
        plan=Only("TrainingPlan"),
        rngs=Only("Sequence[torch.Generator]"),
        progress=PROGRESS,
        returns=TRAINED_NETWORK,
        own_gradients=True,
    )

    def promises(self, plan: TrainingPlan, rows: int) -> tuple[float, float] | None:
        """Return (epsilon, delta) of the differential privacy of training on `rows` members; None means no promise."""
        return None

    def build_together(self, device: torch.device, network: Network) -> TrainTogether | None:
        """Return a function that trains several such networks at once, or None if that would not be faster."""
        return None
