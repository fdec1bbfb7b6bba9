"""For people who write membership-inference evaluators, and defenses against them."""

from imharness.components.hookspecs import hookimpl
from imharness.contracts.assets import Asset
from imharness.contracts.component import Component, Info, Paper
from imharness.contracts.membership_evaluator import (
    Evidence,
    InferMembership,
    LastLayerGradients,
    LayerGradients,
    MembershipEvaluator,
    MembershipQuery,
    References,
    Robustness,
)
from imharness.contracts.membership_release import (
    DefenderOutputs,
    MembershipDefenseInfo,
    MembershipRelease,
    ReleaseOutputs,
)
from imharness.contracts.membership_training import (
    MembershipTraining,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
    TrainTogether,
)
from imharness.contracts.model import Model, NetworkFactory
from imharness.contracts.track import Progress
from imharness.contracts.values import Scores

__all__ = [
    "Asset",
    "Component",
    "DefenderOutputs",
    "Evidence",
    "InferMembership",
    "Info",
    "LastLayerGradients",
    "LayerGradients",
    "MembershipDefenseInfo",
    "MembershipEvaluator",
    "MembershipQuery",
    "MembershipRelease",
    "MembershipTraining",
    "Model",
    "NetworkFactory",
    "Paper",
    "Progress",
    "References",
    "ReleaseOutputs",
    "Robustness",
    "Scores",
    "TrainPrivately",
    "TrainTogether",
    "TrainingData",
    "TrainingPlan",
    "hookimpl",
]
