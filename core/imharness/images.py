"""For people who write attacks, defenses, certifications and metrics of images."""

from imharness.components.hookspecs import hookimpl
from imharness.contracts.assets import Asset
from imharness.contracts.attack import Attack, AttackInfo, BaseAttack, Budget, Perturb, Target
from imharness.contracts.certification import Certificate, Certification, Certify, Smooth
from imharness.contracts.component import Info, Paper
from imharness.contracts.distribution_metric import DistributionMetric, DistributionScore
from imharness.contracts.fitted_attack import FittedAttack
from imharness.contracts.full_reference_metric import FullReferenceMetric, FullReferenceScore
from imharness.contracts.metric import MetricInfo
from imharness.contracts.metric_defense import DefenseInfo
from imharness.contracts.no_reference_metric import NoReferenceMetric, NoReferenceScore
from imharness.contracts.purification import Inverse, Purification, Purifier
from imharness.contracts.randomness import ImageRng
from imharness.contracts.track import Progress
from imharness.contracts.values import Images, Scores

__all__ = [
    "Asset",
    "Attack",
    "AttackInfo",
    "BaseAttack",
    "Budget",
    "Certificate",
    "Certification",
    "Certify",
    "DefenseInfo",
    "DistributionMetric",
    "DistributionScore",
    "FittedAttack",
    "FullReferenceMetric",
    "FullReferenceScore",
    "ImageRng",
    "Images",
    "Info",
    "Inverse",
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
    "hookimpl",
]
