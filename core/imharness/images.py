"""For people who write attacks, defenses, certifications and metrics of images."""

from imharness.components.assets import Asset
from imharness.components.component import Component, Info, Paper
from imharness.components.hookspecs import hookimpl
from imharness.contracts.attack import Attack, AttackInfo, BaseAttack, Budget, FittedAttack, Perturb, Target
from imharness.contracts.defense import Certificate, Certification, Certify, DefenseInfo, Purification, Purifier, Smooth
from imharness.contracts.metric import (
    DistributionMetric,
    DistributionScore,
    FullReferenceMetric,
    FullReferenceScore,
    MetricInfo,
    NoReferenceMetric,
    NoReferenceScore,
)
from imharness.contracts.track import Progress
from imharness.contracts.types import Images, Scores
from imharness.errors import ContractError, HarnessError, Unavailable, UsageError
from imharness.randomness import ImageRng

__all__ = [
    "Asset",
    "Attack",
    "AttackInfo",
    "BaseAttack",
    "Budget",
    "Certificate",
    "Certification",
    "Certify",
    "Component",
    "ContractError",
    "DefenseInfo",
    "DistributionMetric",
    "DistributionScore",
    "FittedAttack",
    "FullReferenceMetric",
    "FullReferenceScore",
    "HarnessError",
    "ImageRng",
    "Images",
    "Info",
    "MetricInfo",
    "NoReferenceMetric",
    "NoReferenceScore",
    "Paper",
    "Perturb",
    "Progress",
    "Purification",
    "Purifier",
    "Scores",
    "Smooth",
    "Target",
    "Unavailable",
    "UsageError",
    "hookimpl",
]
