"""BaVarIA: LiRA with a prior for mean and variance of each row, instead of one variance for all rows or one for each.

Brännvall, "Exponential-Family Membership Inference: From LiRA and RMIA to BaVarIA" (arXiv 2603.11799, 2026). The values
of the prior, and that the normal density has the row's own mean, are those of the author's code, exponential-family-mia
on GitHub.
"""

from typing import Literal

import torch
from pydantic import Field

from imharness.membership import Info, MembershipEvaluator, References, hookimpl
from imharness_membership.likelihood import ReferenceEvaluator

SHAPE = {"student": 2.0, "normal": 1.0}
"""The prior's shape alpha; its scale beta is the variance of all answers."""
SMALLEST = 1e-10


class Bavaria(ReferenceEvaluator):
    """Likelihood ratio of the log odds, with Gaussians whose mean and variance have a normal-inverse-gamma prior.

    The prior of each side, references with the row and without it, follows from mean and variance of all answers there.
    """

    info = Info(id="harness/bavaria", version="1", paper="brannvall2026")
    density: Literal["student", "normal"] = Field(
        default="student",
        description="student: the predictive density of an answer; normal: a Gaussian with the variance expected.",
    )
    mode: Literal["online", "offline"] = Field(
        default="online",
        description="offline: of references with the row only the prior is used, which follows from all rows.",
    )
    kappa: float = Field(default=1.0, gt=0, le=100, description="How many answers the prior mean counts for.")

    @property
    def needs_inside(self) -> bool:
        """Whether some references must have been trained on the rows."""
        return True

    def statistic(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, trained: int
    ) -> torch.Tensor:
        """Return the log likelihood ratio; a row without references on one side has the prior there."""
        answers, member = references.log_odds, references.member
        seen = member if self.mode == "online" else torch.zeros_like(member)
        inside = self._log_density(observed, answers, seen, answers[member])
        return inside - self._log_density(observed, answers, ~member, answers[~member])

    def _log_density(
        self, x: torch.Tensor, answers: torch.Tensor, chosen: torch.Tensor, every: torch.Tensor
    ) -> torch.Tensor:
        """Return the log density of answers ``(m,)`` on one side, up to a constant of both sides.

        `chosen`, bool ``(K, m)``, says which answers the posterior of each row follows from, `every` are those that the
        prior follows from.
        """
        count = chosen.sum(dim=0).to(answers.dtype)
        middle, spread = (every.mean(), every.var(correction=0)) if len(every) else (x.new_zeros(()), x.new_ones(()))
        mean = torch.where(count > 0, (answers * chosen).sum(dim=0) / count.clamp(min=1), middle)
        squares = ((answers - mean).square() * chosen).sum(dim=0)
        shape, weight = SHAPE[self.density] + count / 2, self.kappa + count
        scale = spread + squares / 2 + self.kappa * count * (mean - middle).square() / (2 * weight)
        if self.density == "normal":
            variance = torch.where(shape > 1, scale / (shape - 1).clamp(min=0.5), scale).clamp(min=SMALLEST)
            return -((x - mean).square() / variance + variance.log()) / 2
        width = (scale * (weight + 1) / (shape * weight)).clamp(min=SMALLEST)
        location = (self.kappa * middle + count * mean) / weight
        tail = torch.log1p((x - location).square() / (2 * shape * width))
        return torch.lgamma(shape + 0.5) - torch.lgamma(shape) - (shape.log() + width.log()) / 2 - (shape + 0.5) * tail


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Bavaria(), Bavaria(density="normal")]
