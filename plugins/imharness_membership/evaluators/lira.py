"""LiRA: the likelihood of the target's answer with and without the row in training.

Carlini, Chien, Nasr, Song, Terzis & Tramer, "Membership Inference Attacks From First Principles" (IEEE S&P 2022),
algorithm 1 (online) and section VI-B (offline). Means and variances come from running sums over the reference models.
"""

from typing import Literal

import torch
from pydantic import Field

from imharness.membership import Info, MembershipEvaluator, References, hookimpl
from imharness_membership.likelihood import ReferenceEvaluator

MIN_VARIANCE = 1e-6
ENOUGH = 64
"""Reference models from which on the variance of a row is estimated well enough."""


class Lira(ReferenceEvaluator):
    """Likelihood ratio of the log odds, Gaussians fitted to reference models with and without the row."""

    info = Info(id="harness/lira", version="4", paper="carlini2022")
    mode: Literal["online", "offline-cdf", "offline-logpdf"] = Field(
        default="online",
        description="online: references with and without the row; offline: without it, by its tail or its density.",
    )
    global_variance: bool | None = Field(
        default=None,
        description="One variance for all rows instead of one each; None: where fewer than 64 models were trained.",
    )

    def statistic(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, trained: int
    ) -> torch.Tensor:
        """Return the log likelihood ratio; offline the log of the tail's complement, or minus the log density."""
        pooled = trained < ENOUGH if self.global_variance is None else self.global_variance
        inside, out = (_gaussian(*sums, pooled) for sums in _sums(references.log_odds, references.member))
        if self.mode == "offline-cdf":
            return -torch.special.log_ndtr(-(observed - out[0]) / out[1].sqrt())
        if self.mode == "offline-logpdf":
            return -_log_density(observed, *out)
        return _log_density(observed, *inside) - _log_density(observed, *out)


def _sums(log_odds: torch.Tensor, member: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Return count, sum and sum of squares ``(m,)``, and the centre, for references with the row and without it.

    Sums are of distances from the middle of all answers; those without the row are what is left of the sums of all.
    """
    centre = log_odds.mean(dim=0).double()
    count, total, power, whole, whole_power = log_odds.new_zeros(5, log_odds.shape[1], dtype=torch.float64)
    for values, mask in zip(log_odds, member.view(torch.uint8), strict=True):  # bytes are converted sooner than bools
        shifted, weight = values.double().sub_(centre), mask.double()
        own = shifted * weight
        count.add_(weight)
        total.add_(own)
        power.addcmul_(own, shifted)
        whole.add_(shifted)
        whole_power.addcmul_(shifted, shifted)
    return (count, total, power, centre), (len(log_odds) - count, whole.sub_(total), whole_power.sub_(power), centre)


def _gaussian(
    count: torch.Tensor, total: torch.Tensor, power: torch.Tensor, centre: torch.Tensor, pooled: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and variance ``(m,)`` from sums; a row without references gets those of all rows.

    `pooled`: all rows get one variance, that of the answers around the mean of their row.
    """
    if pooled or bool(count.min() < 2):
        mean = torch.where(count > 0, total / count.clamp(min=1), total.sum() / count.sum().clamp(min=1))
        spread = (power - count * mean.square()).clamp(min=0)
        common = spread.sum() / (count - 1).clamp(min=0).sum().clamp(min=1)
        variance = torch.where((count > 1) & (not pooled), spread / (count - 1).clamp(min=1), common)
    else:  # what most queries need, in fewer passes
        mean = total / count
        variance = torch.addcmul(power, mean, total, value=-1).clamp_(min=0).div_(count - 1)
    return mean.add_(centre).float(), variance.clamp_(min=MIN_VARIANCE).float()


def _log_density(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    """Return the log density of a Gaussian up to a constant."""
    return -((x - mean).square() / variance + variance.log()) / 2


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Lira(), Lira(global_variance=False), Lira(mode="offline-cdf"), Lira(mode="offline-logpdf")]
