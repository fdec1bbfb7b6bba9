"""Metrics whose network a training defense can train further, and where the resulting weights are found."""

import hashlib
import re
from abc import abstractmethod
from importlib.resources import files
from typing import Any, ClassVar, Self

import torch
from pydantic import BaseModel, ConfigDict, Field

from imharness.contracts.assets import folders
from imharness.contracts.no_reference_metric import NoReferenceMetric, NoReferenceScore
from imharness.errors import ContractError, Unavailable


class TuningPlan(BaseModel):
    """How a metric's network is trained further.

    Attributes:
        train: label of the data set to train on, which has opinion scores (``mos``).
        test: label of the data set that the model card reports on.
        epochs: passes over the training images.
        batch: images per step.
        learning_rate: the optimiser's learning rate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: str
    test: str
    epochs: int = Field(default=30, ge=1)
    batch: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=1e-4, gt=0)


class TrainableMetric(NoReferenceMetric):
    """A no-reference metric that training defenses can train further.

    Weights of a training are searched in the folder `trained` of each asset folder, then in `weights_package`.
    """

    tuning: ClassVar[TuningPlan]
    scale_free: ClassVar[bool] = False
    """Whether `loss` stays the same if all scores are multiplied and shifted, as a correlation does.

    Such a metric must have `rescale`, which gives its scores the scale of the labels after a training.
    """
    weights_package: ClassVar[str] = ""
    """The package that ships weights of trainings; "" if none does."""

    training: str = Field(
        default="", max_length=200, description="Label of the training defense that gave the weights; empty: its own."
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        if cls.scale_free and cls.rescale is TrainableMetric.rescale:
            raise TypeError(f"{cls.__name__} is scale_free and needs rescale, which gives scores the scale of labels")

    @abstractmethod
    def network(self, device: torch.device) -> torch.nn.Module:
        """Return the network with the metric's own weights: images ``(N, 3, H, W)`` -> scores ``(N,)``."""

    def loss(self, scores: torch.Tensor, labels: torch.Tensor, span: float) -> torch.Tensor:
        """Return the loss by which the metric itself was trained, a tensor ``()``, of scores and labels ``(N,)``.

        `span` is the range of the labels. By default it is the mean smooth L1 loss of scores and labels, both divided
        by `span`; it is quadratic for errors below 0.1.
        """
        error = torch.nn.functional.smooth_l1_loss(scores / span, labels / span, beta=0.1, reduction="none")
        return error.mean()

    def rescale(self, network: torch.nn.Module, slope: float, offset: float) -> None:
        """Change a network in place so that it returns slope * score + offset; called only if `scale_free`."""
        raise ContractError(f"{self.info.id} has no rescale: its scores have the scale of its labels")

    def tuned_network(self, device: torch.device) -> torch.nn.Module:
        """Return the network with the weights of `training`, in evaluation mode and with its parameters frozen."""
        from safetensors.torch import load

        network = self.network(device)
        if self.training:
            network.load_state_dict({name: t.to(device).float() for name, t in load(self._weights()).items()})
        return network.eval().requires_grad_(False)

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the network with the weights of `training`."""
        return self.tuned_network(device)

    def trained_by(self, training: str) -> Self:
        """Return this metric with the weights of a training defense, which is given by its label."""
        return self.with_parameters(training=training)

    @property
    def weights_name(self) -> str:
        """The name of the file with the weights of `training`, without its extension."""
        return "--".join(re.sub(r"[^a-z0-9.]+", "-", text).strip("-") for text in (self.info.id, self.training))

    def require(self) -> None:
        """Raise `Unavailable` unless the metric and the weights of `training` are on this machine."""
        super().require()
        if self.training:
            self._weights()

    def content(self) -> str:
        """Return a digest of the weights of `training`, or "" if there are none."""
        try:
            return hashlib.sha256(self._weights()).hexdigest() if self.training else ""
        except Unavailable:
            return ""

    def _weights(self) -> bytes:
        name = f"{self.weights_name}.safetensors"
        places = [folder / "trained" / name for folder in folders()]
        packaged = [files(self.weights_package) / name] if self.weights_package else []
        for path in [*places, *packaged]:
            if path.is_file():
                return path.read_bytes()
        raise Unavailable(
            f"weights of {self.training} are not on this machine",
            f"harness train '{self.training}' --metric {self.info.id}",
        )
