"""Trainings of weights: how weights that ship with the package, or are found among the assets, were made.

`harness train NAME` makes them again: it builds the data sets that a training names, passes them on in a
`TrainingContext`, and writes the weights as safetensors beside a card in JSON.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.image_dataset import ImageSet
from imharness.contracts.values import Only, finite


@dataclass(frozen=True)
class Trained:
    """The result of a training: finite tensors by name, and the figures of the model card.

    Attributes:
        tensors: as in a ``state_dict``; they are written in their own dtype.
        card: figure -> value, such as the correlation on the test images: what a reader must know about the weights.
    """

    tensors: Mapping[str, torch.Tensor]
    card: Mapping[str, str | float]


class Stateful(Protocol):
    """Something with a state that a checkpoint keeps: a network, an optimiser, a schedule."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> Any: ...


class Loop(Protocol):
    """Runs ``step(0)`` to ``step(steps - 1)``, shows progress, and continues an interrupted training at its checkpoint.

    A checkpoint of `components` (name -> network, optimiser or schedule) and of the training's generator is written
    after every `every` steps. If steps draw only from that generator, a training that was interrupted gives the same
    weights as one that was not.
    """

    def __call__(
        self, components: Mapping[str, Stateful], steps: int, step: Callable[[int], None], *, every: int
    ) -> None: ...


@dataclass(frozen=True)
class TrainingContext:
    """What a training may use.

    Attributes:
        data: role -> built data set, for the roles of `datasets`.
        components: role -> component that is not built yet, for the roles of `requires`.
        rng: the only source of randomness.
        loop: runs the steps, shows progress, and writes checkpoints.
    """

    data: Mapping[str, ImageSet]
    components: Mapping[str, Component]
    rng: torch.Generator
    loop: Loop


Train: TypeAlias = Callable[[TrainingContext], Trained]
"""A built training: context -> the trained weights and their card."""


def _check_weights(trained: Trained, who: str) -> None:
    for name, tensor in trained.tensors.items():
        finite(tensor, f"{who}: {name}")


TRAINED, TRAINING_CONTEXT = Only("Trained", Trained, _check_weights), Only("TrainingContext")


class WeightTraining(Component, Builds[Train]):
    """Trains weights from data sets of the registry: `harness train NAME`."""

    kind: ClassVar[str] = "weight-training"
    call = Call(context=TRAINING_CONTEXT, returns=TRAINED, own_gradients=True)

    def datasets(self) -> Mapping[str, str]:
        """Return role -> label of a data set, for everything that the training reads."""
        return {}

    def requires(self) -> Mapping[str, tuple[str, str]]:
        """Return role -> (kind, name) of further components that the training uses."""
        return {}
