"""One honest component for each kind of entry of the membership, reconstruction and perceptual tracks."""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.gradients import (
    GradientDefense,
    Gradients,
    ImagePool,
    ImageProtection,
    ImageRng,
    Images,
    Info,
    ProtectGradients,
    ProtectImages,
    hookimpl,
)
from imharness.images import FullReferenceMetric, FullReferenceScore, MetricInfo, Scores
from imharness.membership import (
    Component,
    DefenderOutputs,
    InferMembership,
    MembershipDefenseInfo,
    MembershipEvaluator,
    MembershipQuery,
    MembershipRelease,
    ReleaseOutputs,
)


class Shaken(MembershipRelease):
    """Mixes probabilities with random ones."""

    info = MembershipDefenseInfo(id="good/shaken", version="1")

    def build(self, device: torch.device) -> ReleaseOutputs:
        """Return the defense."""

        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            drawn = torch.rand(outputs.shape, generator=rng).to(outputs.device)
            mixed = outputs + 0.2 * drawn * (defender.member.max() - defender.reference.min())
            return mixed / mixed.sum(dim=1, keepdim=True)

        return release


class AllEvidence(MembershipEvaluator):
    """Adds up everything that an evaluator may ask for."""

    info = Info(id="good/all-evidence", version="1")
    reads = frozenset({"references", "robustness", "gradients"})

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator."""

        def infer(query: MembershipQuery) -> Scores:
            assert query.references is not None
            assert query.robustness is not None
            assert query.gradients is not None
            sure = query.target_outputs.gather(1, query.target_labels[:, None])[:, 0]
            out = (query.references.log_odds * ~query.references.member).sum(dim=0)
            slope = query.gradients.target_error.square().sum(dim=1) + query.gradients.target_features.mean(dim=1)
            shadow = query.shadow_outputs[query.shadow_member].max(dim=1).values.mean()
            return sure - shadow - 0.01 * out + 0.1 * query.robustness.target - 0.1 * slope

        return infer


class NoisyGradients(GradientDefense):
    """Adds noise to gradients."""

    info = Info(id="good/noisy-gradients", version="1")
    scale: float = Field(default=0.001, ge=0, le=1, description="Standard deviation of the noise.")

    def build(self, device: torch.device) -> ProtectGradients:
        """Return the defense."""

        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            return {name: self.scale * rng.normal(*g.shape[1:]) + g for name, g in gradients.items()}

        return protect


class Blended(ImageProtection):
    """Blends every image, and its label, with one that the participant holds."""

    info = Info(id="good/blended", version="1")

    def build(self, device: torch.device) -> ProtectImages:
        """Return the defense."""

        def protect(
            images: Images, targets: torch.Tensor, pool: ImagePool, rng: ImageRng
        ) -> tuple[Images, torch.Tensor]:
            drawn = rng.integers(0, len(pool.images)).to(pool.images.device)
            return 0.7 * images + 0.3 * pool.images[drawn], 0.7 * targets + 0.3 * pool.targets[drawn]

        return protect


class Blurred(FullReferenceMetric):
    """Measures the root of the mean squared difference after a little blur."""

    info = MetricInfo(id="good/blurred", version="1", higher_means="worse_quality", unit="1")

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric."""

        def score(images: Images, reference: Images) -> Scores:
            difference = F.avg_pool2d(images - reference, 3, 1)
            return (difference.square().flatten(1).mean(dim=1) + 1e-12).sqrt()

        return score


class Bounded(Blurred):
    """Measures the root of the mean squared difference after a little blur, and says what it is at most."""

    info = MetricInfo(id="good/bounded", version="1", higher_means="worse_quality", unit="1", bounds=(0.0, 1.0))


@hookimpl
def components() -> list[Component]:
    """Offer all of them."""
    return [Shaken(), AllEvidence(), NoisyGradients(), Blended(), Blurred(), Bounded()]
