"""Membership inference: evaluators that guess who was in the training set, and defenses against them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from pydantic import Field

from imharness.components.component import Component, Info

if TYPE_CHECKING:
    import torch

    from imharness.contracts.track import Progress
    from imharness.contracts.types import Scores


Evidence = Literal["references", "robustness", "gradients"]


@dataclass(frozen=True)
class References:
    """K reference models of the adversary, shown the target's rows and further rows that the target never saw.

    ``log_odds`` float32 ``(K, m)``: log p_y - log(1 - p_y) of the true class; ``member`` bool ``(K, m)``: which of the
    target's rows each reference model was trained on, drawn at random by the adversary. The population is p rows of the
    adversary: ``population_log_odds`` ``(K, p)`` of the references, ``target_population_log_odds`` ``(p,)`` of the
    target.
    """

    log_odds: torch.Tensor
    member: torch.Tensor
    population_log_odds: torch.Tensor
    target_population_log_odds: torch.Tensor


@dataclass(frozen=True)
class Robustness:
    """Share of noisy copies of a row that are classified right, ``(n,)`` in [0, 1]: all that labels alone tell."""

    shadow: torch.Tensor
    target: torch.Tensor


@dataclass(frozen=True)
class LastLayerGradients:
    """Per row, the gradient of the cross-entropy in the last linear layer, as its two factors: error x features.

    ``error`` ``(n, classes)``: probabilities of the undisguised model minus the one-hot label; ``features`` ``(n, d)``:
    what goes into the layer. An adversary who holds the model's parameters can compute both.
    """

    shadow_error: torch.Tensor
    shadow_features: torch.Tensor
    target_error: torch.Tensor
    target_features: torch.Tensor


@dataclass(frozen=True)
class MembershipQuery:
    """What an evaluator may see. Outputs are probabilities, float32 ``(n, classes)``; labels int64 ``(n,)``.

    The rows of the target are permuted: their order says nothing about membership. The last three are
    there for evaluators that ask for them in `reads`.
    """

    shadow_outputs: torch.Tensor
    shadow_labels: torch.Tensor
    shadow_member: torch.Tensor
    """bool ``(n,)``"""
    target_outputs: torch.Tensor
    target_labels: torch.Tensor
    references: References | None = None
    robustness: Robustness | None = None
    gradients: LastLayerGradients | None = None


class InferMembership(Protocol):
    """A built evaluator: float32 ``(m,)`` for the m target rows, higher = more likely a member; >= 0 says member."""

    def __call__(self, query: MembershipQuery, /) -> Scores: ...


class MembershipEvaluator(Component):
    """Guesses membership of target rows from a model's outputs."""

    kind: ClassVar[str] = "evaluator"
    reads: ClassVar[frozenset[Evidence]] = frozenset()
    """What the evaluator needs beyond outputs and labels."""

    @abstractmethod
    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator as a callable."""


@dataclass(frozen=True)
class TrainingData:
    """What a defender trains on: the members, and further rows of the same kind that are not members."""

    features: torch.Tensor
    labels: torch.Tensor
    reference_features: torch.Tensor
    reference_labels: torch.Tensor


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how a model is trained when nothing defends it."""

    epochs: int
    batch_size: int
    learning_rate: float
    optimiser: Literal["adam", "sgd"] = "adam"


class TrainPrivately(Protocol):
    """A built training defense: trains `network` in place or returns another; evaluation mode on return."""

    def __call__(
        self,
        network: torch.nn.Module,
        data: TrainingData,
        plan: TrainingPlan,
        rng: torch.Generator,
        progress: Progress,
        /,
    ) -> torch.nn.Module: ...


class TrainTogether(Protocol):
    """Trains several networks of one architecture in place, each on data and with a generator of its own.

    All have as many members. Every network ends as it would alone, to rounding; evaluation mode on return.
    """

    def __call__(
        self,
        networks: Sequence[torch.nn.Module],
        data: Sequence[TrainingData],
        plan: TrainingPlan,
        rngs: Sequence[torch.Generator],
        progress: Progress,
        /,
    ) -> None: ...


class MembershipDefenseInfo(Info):
    """`baseline`: this is plain training, the row that shadow models of a non-adaptive adversary use."""

    baseline: bool = Field(default=False)


class MembershipTraining(Component):
    """A defense that changes how the model is trained."""

    kind: ClassVar[str] = "defense"
    info: ClassVar[MembershipDefenseInfo]

    @abstractmethod
    def build(self, device: torch.device) -> TrainPrivately:
        """Return the defense as a callable."""

    def build_together(self, network: torch.nn.Module, device: torch.device) -> TrainTogether | None:
        """Return a training of several such networks at once, or None where one after the other is no slower."""
        return None


@dataclass(frozen=True)
class DefenderOutputs:
    """Probabilities of the model on rows that the defender holds: members, and rows that are none."""

    member: torch.Tensor
    reference: torch.Tensor


class ReleaseOutputs(Protocol):
    """A built release defense: probabilities ``(n, classes)`` in, probabilities of the same shape out."""

    def __call__(self, outputs: torch.Tensor, held: DefenderOutputs, rng: torch.Generator, /) -> torch.Tensor: ...


class MembershipRelease(Component):
    """A defense that changes the outputs of a trained model before they are released."""

    kind: ClassVar[str] = "defense"
    info: ClassVar[MembershipDefenseInfo]

    @abstractmethod
    def build(self, device: torch.device) -> ReleaseOutputs:
        """Return the defense as a callable."""
