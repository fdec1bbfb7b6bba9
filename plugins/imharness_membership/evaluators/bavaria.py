"""BaVarIA: LiRA with a prior for mean and variance of each row, instead of one variance for all rows or one for each.

Brännvall, "Exponential-Family Membership Inference: From LiRA and RMIA to BaVarIA" (arXiv 2603.11799, 2026). Two
details follow the author's code, exponential-family-mia on GitHub: the values of the prior, and the mean of the normal
density, which is that of the row's answers alone.
"""

from typing import Literal

import torch
from pydantic import Field

from imharness.membership import Info, MembershipEvaluator, References, hookimpl
from imharness_membership.likelihood import ReferenceEvaluator

SHAPE = {"student": 2.0, "normal": 1.0}
"""The prior's shape alpha; its scale beta is the variance of all answers."""
SMALLEST = 1e-10
"""The smallest variance."""


class Bavaria(ReferenceEvaluator):
    """Likelihood ratio of the log odds, with Gaussians whose mean and variance have a normal-inverse-gamma prior.

    There are two sides: references that were trained on the row, and references that were not. The prior of a side
    follows from mean and variance of the answers to all rows on that side.
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
        """Return the log density of answers x ``(m,)`` on one side, up to a constant of both sides.

        The prior follows from `every`: answers of mean m and variance b. The posterior of a row follows from its
        answers where `chosen`, bool ``(K, m)``, is true: n answers of mean a and sum of squared deviations S. It has

            kappa' = kappa + n,  alpha' = alpha + n / 2,  beta' = b + S / 2 + kappa n (a - m)^2 / (2 kappa').

        "student" is the t density of 2 alpha' degrees of freedom at (kappa m + n a) / kappa', of squared scale beta'
        (kappa' + 1) / (alpha' kappa'); "normal" has the mean a and the expected variance, beta' / (alpha' - 1).
        """
        count = chosen.sum(dim=0).to(answers.dtype)
        centre, variance = (every.mean(), every.var(correction=0)) if len(every) else (x.new_zeros(()), x.new_ones(()))
        mean = torch.where(count > 0, (answers * chosen).sum(dim=0) / count.clamp(min=1), centre)
        squares = ((answers - mean).square() * chosen).sum(dim=0)
        alpha, kappa = SHAPE[self.density] + count / 2, self.kappa + count
        beta = variance + squares / 2 + self.kappa * count * (mean - centre).square() / (2 * kappa)
        if self.density == "normal":
            expected = torch.where(alpha > 1, beta / (alpha - 1).clamp(min=0.5), beta).clamp(min=SMALLEST)
            return -((x - mean).square() / expected + expected.log()) / 2
        squared_scale = (beta * (kappa + 1) / (alpha * kappa)).clamp(min=SMALLEST)
        location = (self.kappa * centre + count * mean) / kappa
        tail = torch.log1p((x - location).square() / (2 * alpha * squared_scale))
        peak = torch.lgamma(alpha + 0.5) - torch.lgamma(alpha) - (alpha.log() + squared_scale.log()) / 2
        return peak - (alpha + 0.5) * tail


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Bavaria(), Bavaria(density="normal")]
