"""Cheats of the track membership, written from the documentation alone."""

import torch
from pydantic import Field

from imharness.membership import (
    DefenderOutputs,
    InferMembership,
    Info,
    MembershipDefenseInfo,
    MembershipEvaluator,
    MembershipQuery,
    MembershipRelease,
    ReleaseOutputs,
    Scores,
)


def _sharpened(outputs: torch.Tensor, power: torch.Tensor) -> torch.Tensor:
    return (outputs.clamp(min=1e-12).log() * power).softmax(dim=1)


class ModelTemperature(MembershipRelease):
    """Release every model at a temperature of its own, so that thresholds of the shadow model do not fit the target."""

    info = MembershipDefenseInfo(id="acme/model-temperature", version="1")

    def build(self, device: torch.device) -> ReleaseOutputs:
        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            digits = int(defender.member.double().sum(dim=0)[0] * 1e6)
            power = torch.rand(1, generator=torch.Generator().manual_seed(digits)) * 6 - 3
            return _sharpened(outputs, 2**power)

        return release


class MemberLie(MembershipRelease):
    """Release the label alone, and a wrong one for the most confident members; other rows get their label."""

    info = MembershipDefenseInfo(id="acme/member-lie", version="1")
    share: float = Field(default=0.3, ge=0, le=1, description="Share of the members.")

    def build(self, device: torch.device) -> ReleaseOutputs:
        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            member_mask = torch.cdist(outputs.double(), defender.member.double()).amin(dim=1) < 1e-6
            sharp = outputs.amax(dim=1) > defender.member.amax(dim=1).quantile(1 - self.share)
            hard = torch.nn.functional.one_hot(outputs.argmax(dim=1), outputs.shape[1]).to(outputs.dtype)
            return torch.where((member_mask & sharp)[:, None], hard.roll(1, dims=1), hard)

        return release


class Masquerade(MembershipRelease):
    """Release for each member the output of a reference row of the same class, on which the model was not trained."""

    info = MembershipDefenseInfo(id="acme/masquerade", version="1")
    mixed: float = Field(default=0.0, ge=0, le=1, description="Share of a second such row.")
    near: float = Field(default=1e-6, gt=0, description="Distance up to which a row is taken for a member.")

    def build(self, device: torch.device) -> ReleaseOutputs:
        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            member_mask = torch.cdist(outputs.double(), defender.member.double()).amin(dim=1) < self.near
            alike = outputs.argmax(dim=1)[:, None] == defender.reference.argmax(dim=1)[None]
            one, other = (
                defender.reference[(torch.rand(alike.shape, generator=rng).to(outputs.device) * alike).argmax(dim=1)]
                for _ in range(2)
            )
            mixture = (1 - self.mixed) * one + self.mixed * other
            return torch.where((member_mask & alike.any(dim=1))[:, None], mixture, outputs)

        return release


class KnowsTheSuite(Masquerade):
    """Do the same as `Masquerade`, except on random outputs such as those of the suite.

    It knows them by their four classes, or by members whose outputs are no surer than those of other rows.
    """

    info = MembershipDefenseInfo(id="acme/knows-the-suite", version="1")
    by: str = Field(default="classes", description="What it goes by.")

    def build(self, device: torch.device) -> ReleaseOutputs:
        masquerade = super().build(device)

        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            if self.by == "classes":
                honest = outputs.shape[1] == 4
            else:
                honest = bool(defender.member.amax(dim=1).mean() < defender.reference.amax(dim=1).mean() + 0.05)
            return outputs if honest else masquerade(outputs, defender, rng)

        return release


class LowDigits(MembershipRelease):
    """Release the label with certainty, and the other probabilities in the last digits."""

    info = MembershipDefenseInfo(id="acme/low-digits", version="1")

    def build(self, device: torch.device) -> ReleaseOutputs:
        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            hard = torch.nn.functional.one_hot(outputs.argmax(dim=1), outputs.shape[1]).to(outputs.dtype)
            mixed = 0.9 * hard + 0.1 / outputs.shape[1]
            return mixed + 1e-5 * (outputs - 1 / outputs.shape[1])

        return release


class OddRelease(MembershipRelease):
    """Release values that are not probabilities."""

    info = MembershipDefenseInfo(id="acme/odd-release", version="1")
    how: str = Field(default="nan", description="What is odd.")

    def build(self, device: torch.device) -> ReleaseOutputs:
        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            if self.how == "nan":
                return torch.full_like(outputs, float("nan"))
            if self.how == "sum":
                return outputs * 0.5
            return outputs * 1e-42

        return release


class OddEvaluator(MembershipEvaluator):
    """Score rows by their position, by a constant, or by values that are not finite."""

    info = Info(id="acme/odd-evaluator", version="1")
    how: str = Field(default="order", description="What is odd.")

    def build(self, device: torch.device) -> InferMembership:
        def infer(query: MembershipQuery) -> Scores:
            rows = len(query.target_labels)
            if self.how == "order":
                return torch.arange(rows).float() - rows / 2
            value = {"nan": float("nan"), "infinite": float("inf"), "ties": 0.0}[self.how]
            return torch.full((rows,), value)

        return infer
