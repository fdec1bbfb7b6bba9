"""RMIA: compares the row's likelihood ratio with those of a population of rows.

Zarifzadeh, Liu & Shokri, "Low-Cost High-Power Membership Inference Attacks" (ICML 2024), equations 2 to 4. Ties are
broken by the row's own ratio, so for one model the order of rows is also that of InfoRMIA.
"""

import numpy as np
import torch
from pydantic import Field

from imharness.membership import Info, MembershipEvaluator, References, hookimpl
from imharness_membership.likelihood_ratio import OFFLINE, RatioEvaluator


class Rmia(RatioEvaluator):
    """The share of population rows whose likelihood ratio a row exceeds by a factor."""

    info = Info(id="harness/rmia", version="3", paper="zarifzadeh2024")
    gamma: float = Field(default=1.0, gt=0, le=100, description="Factor by which the ratio must be larger.")
    offline: float = OFFLINE

    def statistic(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, trained: int
    ) -> torch.Tensor:
        """Return the share of the population that the row exceeds, ``(m,)``; ties are broken by the row's ratio."""
        ratio, population_ratio, _ = self.ratios(observed, population, references, self.offline)
        beaten = torch.searchsorted(_ascending(self.gamma * population_ratio), ratio.contiguous(), right=True)
        return (beaten + 0.5 * ratio / (1 + ratio)) / len(population_ratio)


def _ascending(values: torch.Tensor) -> torch.Tensor:
    """Return the values sorted; numpy does it several times faster on the CPU."""
    return torch.from_numpy(np.sort(values.numpy())) if values.device.type == "cpu" else values.sort().values


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Rmia(), Rmia(mode="tuned"), Rmia(mode="online")]
