"""Contract -> how the conformance suite calls it."""

from __future__ import annotations

from imharness.components.component import Component
from imharness.contracts.attack import BaseAttack
from imharness.contracts.dataset import ImageDataset, TableDataset
from imharness.contracts.defense import Certification, Purification
from imharness.contracts.membership import MembershipEvaluator, MembershipRelease, MembershipTraining
from imharness.contracts.metric import DistributionMetric, FullReferenceMetric, NoReferenceMetric
from imharness.contracts.model import Model
from imharness.contracts.reconstruction import GradientDefense, ImageProtection, ReconstructionAttack
from imharness_conformance.attacks import AttackProbe, CertificationProbe, PurificationProbe
from imharness_conformance.data import ImageDatasetProbe, ModelProbe, TableDatasetProbe
from imharness_conformance.membership import EvaluatorProbe, ReleaseProbe, TrainingProbe
from imharness_conformance.metrics import DistributionProbe, FullReferenceProbe, NoReferenceProbe
from imharness_conformance.probe import Probe
from imharness_conformance.reconstruction import GradientDefenseProbe, ImageProtectionProbe, ReconstructionProbe

_PROBES: dict[type[Component], type[Probe]] = {
    Purification: PurificationProbe,
    Certification: CertificationProbe,
    NoReferenceMetric: NoReferenceProbe,
    FullReferenceMetric: FullReferenceProbe,
    DistributionMetric: DistributionProbe,
    BaseAttack: AttackProbe,
    ReconstructionAttack: ReconstructionProbe,
    GradientDefense: GradientDefenseProbe,
    ImageProtection: ImageProtectionProbe,
    MembershipEvaluator: EvaluatorProbe,
    MembershipRelease: ReleaseProbe,
    MembershipTraining: TrainingProbe,
    Model: ModelProbe,
    ImageDataset: ImageDatasetProbe,
    TableDataset: TableDatasetProbe,
}


def probe_of(component: Component, seed: int) -> Probe | None:
    """Return how a component is called, or None for kinds that are run by `harness train` and `harness run` only."""
    return next((probe(component, seed) for kind, probe in _PROBES.items() if isinstance(component, kind)), None)
