"""Trainings of weights: how weights that ship or are looked for were made, so that anybody can make them again.

`harness train NAME` builds the data sets and components that a training names, and gives them to it in a
`TrainingContext`; the weights are written as safetensors beside a card in JSON.
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
    """What a training leaves: finite tensors by name, and the figures of the model card.

    Attributes:
        tensors: as in a ``state_dict``; written in their own dtype.
        card: figure -> value, such as the correlation on the test images; what a reader must know of the weights.
    """

    tensors: Mapping[str, torch.Tensor]
    card: Mapping[str, str | float]


class Stateful(Protocol):
    """A network, an optimiser, a schedule: what a checkpoint keeps."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> Any: ...


class Loop(Protocol):
    """Runs ``step(0)`` to ``step(steps - 1)``, shows progress, and goes on after a kill where it left off.

    A checkpoint of `parts` and of the training's generator is written every `every` steps; a training that was
    interrupted gives the same weights as one that was not, if a step draws from that generator alone.
    """

    def __call__(
        self, parts: Mapping[str, Stateful], steps: int, step: Callable[[int], None], *, every: int
    ) -> None: ...


@dataclass(frozen=True)
class TrainingContext:
    """What a training may use.

    Attributes:
        data: role -> built data set, as `datasets` names them.
        components: role -> component, as `requires` names them; not built yet.
        rng: the one source of randomness.
        loop: runs the steps, shows progress, and keeps checkpoints.
    """

    data: Mapping[str, ImageSet]
    components: Mapping[str, Component]
    rng: torch.Generator
    loop: Loop


Train: TypeAlias = Callable[[TrainingContext], Trained]
"""A built training: trains and returns the weights."""


def _check_weights(trained: Trained, who: str) -> None:
    for name, tensor in trained.tensors.items():
        finite(tensor, f"{who}: {name}")


TRAINED, TRAINING_CONTEXT = Only("Trained", Trained, _check_weights), Only("TrainingContext")


class WeightTraining(Component, Builds[Train]):
    """Trains weights from data sets of the registry: `harness train NAME`."""

    kind: ClassVar[str] = "weight-training"
    call = Call(context=TRAINING_CONTEXT, returns=TRAINED, own_gradients=True)

    def datasets(self) -> Mapping[str, str]:
        """Return role -> data set label, for everything the training reads."""
        return {}

    def requires(self) -> Mapping[str, tuple[str, str]]:
        """Return role -> (kind, name) of further components the training uses."""
        return {}
