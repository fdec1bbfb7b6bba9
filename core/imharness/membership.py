"""For people who write membership-inference evaluators, defenses against them, and audits of models."""

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
from imharness.statistics.gate import BalancedAccuracy, Estimate

__all__ = [
    "Asset",
    "BalancedAccuracy",
    "Component",
    "DefenderOutputs",
    "Estimate",
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
