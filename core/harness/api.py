"""The one door for plugin authors: everything a plugin may use stands here."""

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
from harness.contracts.defense import DefenseInfo, Purification, Purifier
from harness.contracts.membership import (
    InferMembership,
    MembershipDefenseInfo,
    MembershipEvaluator,
    MembershipQuery,
    MembershipRelease,
    MembershipTraining,
    ReleaseOutputs,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
)
from harness.contracts.metric import (
    DistributionMetric,
    DistributionScore,
    FullReferenceMetric,
    FullReferenceScore,
    MetricInfo,
    NoReferenceMetric,
    NoReferenceScore,
)
from harness.contracts.model import Model, NetworkFactory
from harness.contracts.recipe import Recipe, Train, Trained
from harness.contracts.reconstruction import (
    GradientDefense,
    ProtectGradients,
    Reconstruct,
    ReconstructionAttack,
)
from harness.contracts.track import (
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
)
from harness.errors import ContractError, HarnessError, NotTestable, Unavailable, UsageError
from harness.hookspecs import API_VERSION, hookimpl
from harness.randomness import ImageRng, derive_seed, generator, seeded_init
from harness.results import ColumnSpec, Row, Table, Value
from harness.stats.bootstrap import Interval, interval, mean_interval
from harness.stats.correlation import correlate, pearson_rows, spearman_rows
from harness.stats.pairwise import bradley_terry, win_rates
from harness.stats.roc import auc, balanced_accuracy, tpr_at_fpr
from harness.stats.sampling import KruskalWallis, kruskal_wallis
from harness.tabulate import cube, mean_value, missing, value_of, win_table
from harness.types import Gradients, Images, Scores

__all__ = [
    "API_VERSION",
    "Asset",
    "Attack",
    "AttackInfo",
    "AttackRecipe",
    "Budget",
    "ColumnSpec",
    "Component",
    "ContractError",
    "DefenseInfo",
    "DistributionMetric",
    "DistributionScore",
    "FittedAttack",
    "FullReferenceMetric",
    "FullReferenceScore",
    "GradientDefense",
    "Gradients",
    "HarnessError",
    "ImageDataset",
    "ImageRng",
    "ImageSet",
    "Images",
    "InferMembership",
    "Info",
    "Interval",
    "KruskalWallis",
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
    "Paper",
    "Perturb",
    "Planned",
    "Planner",
    "Progress",
    "ProtectGradients",
    "Purification",
    "Purifier",
    "Query",
    "Recipe",
    "Reconstruct",
    "ReconstructionAttack",
    "ReleaseOutputs",
    "Row",
    "Scores",
    "Selection",
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
    "Trained",
    "TrainingData",
    "TrainingPlan",
    "Unavailable",
    "UsageError",
    "Value",
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
    "kruskal_wallis",
    "mean_interval",
    "mean_value",
    "missing",
    "pearson_rows",
    "seeded_init",
    "spearman_rows",
    "tpr_at_fpr",
    "value_of",
    "win_rates",
    "win_table",
]
