"""The one door for plugin authors: everything a plugin may use stands here."""

import warnings

from imharness.components.assets import Asset, cache_folder, data_folder
from imharness.components.component import Component, Info, Paper
from imharness.components.hookspecs import API_VERSION, hookimpl
from imharness.contracts.attack import (
    Attack,
    AttackInfo,
    BaseAttack,
    Budget,
    FittedAttack,
    Perturb,
    Target,
)
from imharness.contracts.dataset import ImageDataset, ImageSet, TableDataset, TableSet
from imharness.contracts.defense import (
    Certificate,
    Certification,
    Certify,
    DefenseInfo,
    Purification,
    Purifier,
    Smooth,
    TrainingDefense,
    Tune,
)
from imharness.contracts.membership import (
    DefenderOutputs,
    Evidence,
    InferMembership,
    LastLayerGradients,
    MembershipDefenseInfo,
    MembershipEvaluator,
    MembershipQuery,
    MembershipRelease,
    MembershipTraining,
    References,
    ReleaseOutputs,
    Robustness,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
    TrainTogether,
)
from imharness.contracts.metric import (
    DistributionMetric,
    DistributionScore,
    FullReferenceMetric,
    FullReferenceScore,
    MetricInfo,
    NoReferenceMetric,
    NoReferenceScore,
    TrainableMetric,
    TuningPlan,
)
from imharness.contracts.model import Model, NetworkFactory
from imharness.contracts.reconstruction import (
    GradientDefense,
    ImagePool,
    ImageProtection,
    ProtectGradients,
    ProtectImages,
    Reconstruct,
    ReconstructionAttack,
)
from imharness.contracts.track import (
    Output,
    Planned,
    Planner,
    Progress,
    Query,
    Selection,
    Step,
    StepContext,
    StepResult,
    Track,
    TrackReport,
)
from imharness.contracts.types import Gradients, Images, Scores
from imharness.contracts.weight_training import Train, Trained, TrainingContext, WeightTraining
from imharness.errors import ContractError, HarnessError, NotTestable, Unavailable, UsageError
from imharness.randomness import ImageRng, derive_seed, generator, seeded_init
from imharness.ranking.comparisons import PairedScores, paired_scores
from imharness.ranking.statistics.bootstrap import Interval, interval, mean_interval
from imharness.ranking.statistics.correlation import correlate, kendall_rows, pearson_rows, spearman_rows, williams
from imharness.ranking.statistics.kruskal_wallis import KruskalWallis, kruskal_wallis
from imharness.ranking.statistics.roc import auc, balanced_accuracy, tpr_at_fpr
from imharness.ranking.statistics.wilcoxon import wilcoxon_greater
from imharness.ranking.statistics.win_rates import bradley_terry
from imharness.ranking.tables import cube, mean_value, missing, value_of
from imharness.results.records import Chart, ColumnSpec, Example, Panel, Row, Series, Table, Value

__all__ = [
    "API_VERSION",
    "Asset",
    "Attack",
    "AttackInfo",
    "BaseAttack",
    "Budget",
    "Certificate",
    "Certification",
    "Certify",
    "Chart",
    "ColumnSpec",
    "Component",
    "ContractError",
    "DefenderOutputs",
    "DefenseInfo",
    "DistributionMetric",
    "DistributionScore",
    "Evidence",
    "Example",
    "FittedAttack",
    "FullReferenceMetric",
    "FullReferenceScore",
    "GradientDefense",
    "Gradients",
    "HarnessError",
    "ImageDataset",
    "ImagePool",
    "ImageProtection",
    "ImageRng",
    "ImageSet",
    "Images",
    "InferMembership",
    "Info",
    "Interval",
    "KruskalWallis",
    "LastLayerGradients",
    "MembershipDefenseInfo",
    "MembershipEvaluator",
    "MembershipQuery",
    "MembershipRelease",
    "MembershipTraining",
    "MetricInfo",
    "Model",
    "NetworkFactory",
    "NoReferenceMetric",
    "NoReferenceScore",
    "NotTestable",
    "Output",
    "PairedScores",
    "Panel",
    "Paper",
    "Perturb",
    "Planned",
    "Planner",
    "Progress",
    "ProtectGradients",
    "ProtectImages",
    "Purification",
    "Purifier",
    "Query",
    "Reconstruct",
    "ReconstructionAttack",
    "References",
    "ReleaseOutputs",
    "Robustness",
    "Row",
    "Scores",
    "Selection",
    "Series",
    "Smooth",
    "Step",
    "StepContext",
    "StepResult",
    "Table",
    "TableDataset",
    "TableSet",
    "Target",
    "Track",
    "TrackReport",
    "Train",
    "TrainPrivately",
    "TrainTogether",
    "TrainableMetric",
    "Trained",
    "TrainingContext",
    "TrainingData",
    "TrainingDefense",
    "TrainingPlan",
    "Tune",
    "TuningPlan",
    "Unavailable",
    "UsageError",
    "Value",
    "WeightTraining",
    "auc",
    "balanced_accuracy",
    "bradley_terry",
    "cache_folder",
    "correlate",
    "cube",
    "data_folder",
    "derive_seed",
    "generator",
    "hookimpl",
    "interval",
    "kendall_rows",
    "kruskal_wallis",
    "mean_interval",
    "mean_value",
    "missing",
    "paired_scores",
    "pearson_rows",
    "seeded_init",
    "spearman_rows",
    "tpr_at_fpr",
    "value_of",
    "wilcoxon_greater",
    "williams",
]

DEPRECATED: dict[str, tuple[str, object]] = {}
"""Old name -> (what to use instead, the object), for one minor version; see docs/stability.md."""


def __getattr__(name: str) -> object:
    """Return a deprecated name with a warning."""
    if name not in DEPRECATED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    replacement, found = DEPRECATED[name]
    text = (
        f"imharness.api.{name} goes away with API version {int(API_VERSION.partition('.')[0]) + 1}.0: use {replacement}"
    )
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return found
