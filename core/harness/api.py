"""The one door for plugin authors: everything a plugin may use stands here."""

import warnings

from harness.assets import Asset, cache_folder, data_folder
from harness.contracts.attack import (
    Attack,
    AttackInfo,
    AttackRecipe,
    Budget,
    FittedAttack,
    Perturb,
    Target,
)
from harness.contracts.component import Component, Info, Paper
from harness.contracts.dataset import ImageDataset, ImageSet, TableDataset, TableSet
from harness.contracts.defense import (
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
from harness.contracts.membership import (
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
from harness.contracts.metric import (
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
from harness.contracts.model import Model, NetworkFactory
from harness.contracts.recipe import Recipe, Train, Trained, Workshop
from harness.contracts.reconstruction import (
    GradientDefense,
    ImagePool,
    ImageProtection,
    ProtectGradients,
    ProtectImages,
    Reconstruct,
    ReconstructionAttack,
)
from harness.contracts.track import (
    Output,
    Planned,
    Planner,
    Progress,
    Query,
    Report,
    Selection,
    Step,
    StepContext,
    StepResult,
    Track,
)
from harness.errors import ContractError, HarnessError, NotTestable, Unavailable, UsageError
from harness.hookspecs import API_VERSION, hookimpl
from harness.pairing import PairedScores, paired_scores
from harness.randomness import ImageRng, derive_seed, generator, seeded_init
from harness.results import Chart, ColumnSpec, Example, Panel, Row, Series, Table, Value
from harness.stats.bootstrap import Interval, interval, mean_interval
from harness.stats.correlation import correlate, kendall_rows, pearson_rows, spearman_rows, williams
from harness.stats.paired import wilcoxon_greater
from harness.stats.pairwise import bradley_terry
from harness.stats.roc import auc, balanced_accuracy, tpr_at_fpr
from harness.stats.sampling import KruskalWallis, kruskal_wallis
from harness.tabulate import cube, mean_value, missing, value_of
from harness.types import Gradients, Images, Scores

__all__ = [
    "API_VERSION",
    "Asset",
    "Attack",
    "AttackInfo",
    "AttackRecipe",
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
    "Recipe",
    "Reconstruct",
    "ReconstructionAttack",
    "References",
    "ReleaseOutputs",
    "Report",
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
    "Train",
    "TrainPrivately",
    "TrainTogether",
    "TrainableMetric",
    "Trained",
    "TrainingData",
    "TrainingDefense",
    "TrainingPlan",
    "Tune",
    "TuningPlan",
    "Unavailable",
    "UsageError",
    "Value",
    "Workshop",
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
        f"harness.api.{name} goes away with API version {int(API_VERSION.partition('.')[0]) + 1}.0: use {replacement}"
    )
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return found
