"""Contract -> how the conformance suite calls it."""

from __future__ import annotations

from harness.contracts.attack import AttackRecipe
from harness.contracts.component import Component
from harness.contracts.dataset import ImageDataset, TableDataset
from harness.contracts.defense import Certification, Purification
from harness.contracts.membership import MembershipEvaluator, MembershipRelease, MembershipTraining
from harness.contracts.metric import DistributionMetric, FullReferenceMetric, NoReferenceMetric
from harness.contracts.model import Model
from harness.contracts.reconstruction import GradientDefense, ImageProtection, ReconstructionAttack
from harness.testing.attacks import AttackProbe, CertificationProbe, PurificationProbe
from harness.testing.data import ImageDatasetProbe, ModelProbe, TableDatasetProbe
from harness.testing.membership import EvaluatorProbe, ReleaseProbe, TrainingProbe
from harness.testing.metrics import DistributionProbe, FullReferenceProbe, NoReferenceProbe
from harness.testing.probe import Probe
from harness.testing.reconstruction import GradientDefenseProbe, ImageProtectionProbe, ReconstructionProbe

_PROBES: dict[type[Component], type[Probe]] = {
    Purification: PurificationProbe,
    Certification: CertificationProbe,
    NoReferenceMetric: NoReferenceProbe,
    FullReferenceMetric: FullReferenceProbe,
    DistributionMetric: DistributionProbe,
    AttackRecipe: AttackProbe,
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
