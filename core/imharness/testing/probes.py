"""Finds how the conformance suite calls the components of a contract."""

from __future__ import annotations

from imharness.contracts.attack import Attack
from imharness.contracts.call import call_of
from imharness.contracts.certification import Certification
from imharness.contracts.component import Component
from imharness.contracts.distribution_metric import DistributionMetric
from imharness.contracts.fitted_attack import FittedAttack
from imharness.contracts.full_reference_metric import FullReferenceMetric
from imharness.contracts.gradient_defense import GradientDefense
from imharness.contracts.image_dataset import ImageDataset
from imharness.contracts.image_protection import ImageProtection
from imharness.contracts.membership_evaluator import MembershipEvaluator
from imharness.contracts.membership_release import MembershipRelease
from imharness.contracts.membership_training import MembershipTraining
from imharness.contracts.model import Model
from imharness.contracts.no_reference_metric import NoReferenceMetric
from imharness.contracts.purification import Purification
from imharness.contracts.reconstruction_attack import ReconstructionAttack
from imharness.contracts.table_dataset import TableDataset
from imharness.testing.attacks import AttackProbe, ReconstructionProbe
from imharness.testing.data import ImageDatasetProbe, ModelProbe, TableDatasetProbe
from imharness.testing.defenses import CertificationProbe, PurificationProbe
from imharness.testing.membership import EvaluatorProbe, TrainingProbe
from imharness.testing.metrics import DistributionProbe, FullReferenceProbe, NoReferenceProbe
from imharness.testing.privacy import GradientDefenseProbe, ImageProtectionProbe, ReleaseProbe
from imharness.testing.probe import Probe
from imharness.testing.samples import drawable

_SPECIAL: dict[type[Component], type[Probe]] = {
    Purification: PurificationProbe,
    Certification: CertificationProbe,
    NoReferenceMetric: NoReferenceProbe,
    FullReferenceMetric: FullReferenceProbe,
    DistributionMetric: DistributionProbe,
    Attack: AttackProbe,
    FittedAttack: AttackProbe,
    ReconstructionAttack: ReconstructionProbe,
    GradientDefense: GradientDefenseProbe,
    ImageProtection: ImageProtectionProbe,
    MembershipEvaluator: EvaluatorProbe,
    MembershipTraining: TrainingProbe,
    MembershipRelease: ReleaseProbe,
    Model: ModelProbe,
    ImageDataset: ImageDatasetProbe,
    TableDataset: TableDatasetProbe,
}
"""The contracts with a probe of their own; components of other contracts are tested by the contract's call alone."""


def probe_of(component: Component, seed: int) -> Probe | None:
    """Return the probe of a component, or None for kinds that only `harness train` and `harness run` use."""
    special = next((_SPECIAL[cls] for cls in type(component).__mro__ if cls in _SPECIAL), None)
    if special is not None:
        return special(component, seed)
    call = call_of(type(component))
    return Probe(component, seed) if call is not None and all(map(drawable, call.arguments.values())) else None
