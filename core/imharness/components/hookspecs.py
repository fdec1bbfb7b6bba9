"""The hooks a plugin package can implement; each docstring is the hook's documentation.

A plugin is a module named by an entry point of the group ``harness``. It marks functions of these names with
`hookimpl`. A hook returns recipes, never classes; the same class may be returned several times with other parameters.
"""

from __future__ import annotations

import pluggy

from imharness.components.component import Component
from imharness.contracts.attack import Attack, FittedAttack
from imharness.contracts.dataset import ImageDataset, TableDataset
from imharness.contracts.defense import Certification, Purification, TrainingDefense
from imharness.contracts.membership import MembershipEvaluator, MembershipRelease, MembershipTraining
from imharness.contracts.metric import DistributionMetric, FullReferenceMetric, NoReferenceMetric
from imharness.contracts.model import Model
from imharness.contracts.reconstruction import GradientDefense, ImageProtection, ReconstructionAttack
from imharness.contracts.track import Track
from imharness.contracts.weight_training import WeightTraining

API_VERSION = "1.0"
PROJECT = "imharness"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_attacks() -> list[Attack | FittedAttack | ReconstructionAttack]:
    """Return attacks on metrics, and attacks that rebuild private images from gradients."""


@hookspec
def register_defenses() -> list[
    Purification
    | Certification
    | TrainingDefense
    | GradientDefense
    | ImageProtection
    | MembershipTraining
    | MembershipRelease
]:
    """Return defenses: of a metric's input or weights, of gradients or private images, or of a training set."""


@hookspec
def register_metrics() -> list[NoReferenceMetric | FullReferenceMetric | DistributionMetric]:
    """Return metrics of quality, of perceptual distance, or of privacy leakage."""


@hookspec
def register_evaluators() -> list[MembershipEvaluator]:
    """Return membership-inference evaluators."""


@hookspec
def register_models() -> list[Model]:
    """Return classifier architectures."""


@hookspec
def register_datasets() -> list[ImageDataset | TableDataset]:
    """Return data sets."""


@hookspec
def register_recipes() -> list[WeightTraining]:
    """Return recipes that train weights for `harness train`."""


@hookspec
def register_tracks() -> list[Track]:
    """Return tracks: plans of cells, and the tables they make."""


ACCEPTED: dict[str, tuple[type[Component], ...]] = {
    "register_attacks": (Attack, FittedAttack, ReconstructionAttack),
    "register_defenses": (
        Purification,
        Certification,
        TrainingDefense,
        GradientDefense,
        ImageProtection,
        MembershipTraining,
        MembershipRelease,
    ),
    "register_metrics": (NoReferenceMetric, FullReferenceMetric, DistributionMetric),
    "register_evaluators": (MembershipEvaluator,),
    "register_models": (Model,),
    "register_datasets": (ImageDataset, TableDataset),
    "register_recipes": (WeightTraining,),
    "register_tracks": (Track,),
}
