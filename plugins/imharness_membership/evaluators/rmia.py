"""RMIA: compares the row's likelihood ratio with those of a population of rows.

Zarifzadeh, Liu & Shokri, "Low-Cost High-Power Membership Inference Attacks" (ICML 2024), equations 2 to 4.
"""

import torch
from pydantic import Field

from imharness.membership import Info, MembershipEvaluator, References, hookimpl
from imharness_membership.likelihood import ReferenceEvaluator


class Rmia(ReferenceEvaluator):
    """The share of population rows whose likelihood ratio a row exceeds by a factor."""

    info = Info(id="harness/rmia", version="2", paper="zarifzadeh2024")
    gamma: float = Field(default=1.0, gt=0, le=100, description="Factor by which the ratio must be larger.")
    offline: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="The constant a of the offline estimate of the mean probability, (1 + a) / 2 p_out + (1 - a) / 2.",
    )

    def statistic(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, trained: int
    ) -> torch.Tensor:
        """Return the share of the population that the row exceeds; ties are broken by the row's ratio.

        A row on which every reference was trained is compared with all of them.
        """
        out = (~references.member).float()
        out = torch.where(out.sum(dim=0) > 0, out, torch.ones_like(out))
        outside = (references.log_odds.sigmoid() * out).sum(dim=0) / out.sum(dim=0)
        ratio = observed.sigmoid() / self._mean_probability(outside)
        others = population.sigmoid() / self._mean_probability(references.population_log_odds.sigmoid().mean(dim=0))
        beaten = torch.searchsorted((self.gamma * others).sort().values, ratio.contiguous(), right=True)
        return (beaten + 0.5 * ratio / (1 + ratio)) / len(others)

    def _mean_probability(self, outside: torch.Tensor) -> torch.Tensor:
        return ((1 + self.offline) / 2 * outside + (1 - self.offline) / 2).clamp(min=1e-30)


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Rmia()]
