"""Metrics: one number per image, and what a higher number means."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator

from imharness.components.assets import folders
from imharness.components.component import Component, Info
from imharness.errors import ContractError, Unavailable

if TYPE_CHECKING:
    import torch

    from imharness.contracts.types import Images, Scores

HigherMeans = Literal["better_quality", "worse_quality", "more_leakage", "less_leakage"]


class MetricInfo(Info):
    """`bounds`: (lower, upper) of the scores on natural images; needed to attack the metric. `unit`: of the score."""

    higher_means: HigherMeans
    bounds: tuple[float, float] | None = None
    unit: str = ""
    differentiable: bool = True
    labelled: str = ""
    """What readers of a table must know of it, in a few words: "a small network trained for this package"."""

    @model_validator(mode="after")
    def _ordered(self) -> MetricInfo:
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"bounds must be (lower, upper) with lower < upper, got {self.bounds}")
        return self


class Metric(Component):
    """What all metrics share; derive from `NoReferenceMetric` or `FullReferenceMetric`."""

    kind: ClassVar[str] = "metric"
    info: ClassVar[MetricInfo]

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper); raises `ContractError` when the metric declares none: no range is ever assumed."""
        if self.info.bounds is None:
            raise ContractError(
                f"{self.info.id} declares no bounds; relative scores need them: set MetricInfo(bounds=(lower, upper))"
            )
        return self.info.bounds

    @property
    def closeness(self) -> int:
        """+1 when a higher score means closer to the reference (and so more leakage), else -1."""
        return 1 if self.info.higher_means in ("better_quality", "more_leakage") else -1


class NoReferenceScore(Protocol):
    """A built no-reference metric."""

    def __call__(self, images: Images, /) -> Scores: ...


class FullReferenceScore(Protocol):
    """A built full-reference metric; `images` and `reference` have one shape."""

    def __call__(self, images: Images, reference: Images, /) -> Scores: ...


class NoReferenceMetric(Metric):
    """Scores an image alone. It must score image i from image i only, whatever else is in the batch."""

    @abstractmethod
    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric as a callable; parameters frozen, evaluation mode."""


class TuningPlan(BaseModel):
    """How a metric's network is trained further: data sets by label, and the usual numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: str
    test: str
    epochs: int = Field(default=30, ge=1)
    batch: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=1e-4, gt=0)


class TrainableMetric(NoReferenceMetric):
    """A no-reference metric that training defenses can train further.

    Weights of a training are looked for in the folder `trained` of each asset folder, then in `weights_package`.
    """

    tuning: ClassVar[TuningPlan]
    weights_package: ClassVar[str] = ""

    training: str = Field(
        default="", max_length=200, description="Label of the training defense that gave the weights; empty: its own."
    )

    @abstractmethod
    def network(self, device: torch.device) -> torch.nn.Module:
        """Return the network with the metric's own weights: images ``(N, 3, H, W)`` -> scores ``(N,)``."""

    def tuned_network(self, device: torch.device) -> torch.nn.Module:
        """Return the network with the weights of `training`, in evaluation mode, parameters frozen."""
        from safetensors.torch import load

        network = self.network(device)
        if self.training:
            network.load_state_dict({name: t.to(device).float() for name, t in load(self._weights()).items()})
        return network.eval().requires_grad_(False)

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the network."""
        return self.tuned_network(device)

    def trained_by(self, training: str) -> TrainableMetric:
        """Return this metric with the weights of a training defense, by its label."""
        return self.with_parameters(training=training)

    @property
    def weights_name(self) -> str:
        """File name of the weights of `training`, without its ending."""
        return "--".join(re.sub(r"[^a-z0-9.]+", "-", part).strip("-") for part in (self.info.id, self.training))

    def require(self) -> None:
        """Raise `Unavailable` unless the metric and the weights of `training` are on this machine."""
        super().require()
        if self.training:
            self._weights()

    def content(self) -> str:
        """Return a digest of the weights of `training`."""
        try:
            return hashlib.sha256(self._weights()).hexdigest() if self.training else ""
        except Unavailable:
            return ""

    def _weights(self) -> bytes:
        name = f"{self.weights_name}.safetensors"
        places = [folder / "trained" / name for folder in folders()]
        packaged = [files(self.weights_package) / name] if self.weights_package else []
        for place in [*places, *packaged]:
            if place.is_file():
                return place.read_bytes()
        raise Unavailable(
            f"weights of {self.training} are not on this machine",
            f"harness train '{self.training}' --metric {self.info.id}",
        )


class FullReferenceMetric(Metric):
    """Scores an image against its reference: fidelity, perceptual distance or privacy leakage."""

    @abstractmethod
    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric as a callable; parameters frozen, evaluation mode."""


class DistributionMetric(Metric):
    """Scores a whole set of images against a set of references, as FID does."""

    @abstractmethod
    def build(self, device: torch.device) -> DistributionScore:
        """Return the metric as a callable."""


class DistributionScore(Protocol):
    """A built distribution metric; returns one number."""

    def __call__(self, images: Images, reference: Images, /) -> float: ...
