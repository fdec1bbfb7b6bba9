"""LiRA: the likelihood of the target's answer with and without the row in training.

Carlini, Chien, Nasr, Song, Terzis & Tramer, "Membership Inference Attacks From First Principles" (IEEE S&P 2022),
algorithm 1 (online) and section VI-B (offline).
"""

from typing import Literal

import torch
from pydantic import Field

from imharness.membership import Info, MembershipEvaluator, References, hookimpl
from imharness_membership.likelihood import ReferenceEvaluator

MIN_VARIANCE = 1e-6
ENOUGH = 64
"""The number of reference models from which the variance of a single row is estimated well enough."""
AT_ONCE = 1 << 19
"""The number of answers that are summed at once, so that intermediate results stay in the processor's cache."""
Gaussian = tuple[torch.Tensor, torch.Tensor]
"""Means and variances, ``(m,)`` each."""


class Lira(ReferenceEvaluator):
    """Likelihood ratio of the log odds, with Gaussians fitted to reference models with and without the row."""

    info = Info(id="harness/lira", version="5", paper="carlini2022")
    mode: Literal["online", "offline-cdf", "offline-logpdf"] = Field(
        default="online",
        description="online: references with and without the row; offline: without it, by its tail or its density.",
    )
    global_variance: bool | None = Field(
        default=None,
        description="One variance for all rows instead of one each; None: if fewer than 64 models were trained.",
    )

    @property
    def needs_inside(self) -> bool:
        """Whether some references must have been trained on the rows."""
        return self.mode == "online"

    def statistic(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, trained: int
    ) -> torch.Tensor:
        """Return the log likelihood ratio online, minus the log of the upper tail in offline-cdf, ``(m,)``.

        In offline-logpdf it is minus the log density. Where models were asked about several views of a row, the result
        is the mean over the views. Each view has its own Gaussians, as if answers to views were independent (VI-C).
        """
        views, target_views = references.view_log_odds, references.target_view_log_odds
        if views is None or target_views is None:
            return self._statistic_of_answers(observed, references.log_odds, references.member, trained)
        answers = torch.cat([references.log_odds[:, None], views], dim=1)  # (K, 1 + v, m)
        target_answers = torch.cat([observed[None], target_views])  # (1 + v, m)
        member = references.member[:, None].expand_as(answers)
        statistics = self._statistic_of_answers(
            target_answers.flatten(), answers.flatten(1), member.flatten(1), trained
        )
        return statistics.view(answers.shape[1:]).mean(dim=0)

    def _statistic_of_answers(
        self, observed: torch.Tensor, log_odds: torch.Tensor, member: torch.Tensor, trained: int
    ) -> torch.Tensor:
        """Return the statistic of the target's answers ``(m,)`` from those of K references, ``(K, m)``."""
        pooled = trained < ENOUGH if self.global_variance is None else self.global_variance
        inside, out = _fitted(log_odds, member, pooled)
        if self.mode == "offline-cdf":
            return -torch.special.log_ndtr(-(observed - out[0]) / out[1].sqrt())
        if self.mode == "offline-logpdf":
            return -_log_density(observed, *out)
        return _log_density(observed, *inside) - _log_density(observed, *out)


def _fitted(log_odds: torch.Tensor, member: torch.Tensor, pooled: bool) -> tuple[Gaussian, Gaussian]:
    """Return the Gaussians of references with the row and without it."""
    moments = log_odds.new_empty(2, 3, log_odds.shape[1])
    few = max(1, AT_ONCE // len(log_odds))
    for answers, mask, sums in zip(*(x.split(few, dim=-1) for x in (log_odds, member, moments)), strict=True):
        _sum(answers, mask, sums)
    inside, out = ((_means(total, count), _variances(spread, count, pooled)) for count, total, spread in moments)
    return inside, out


def _sum(log_odds: torch.Tensor, member: torch.Tensor, sums: torch.Tensor) -> None:
    """Write count, sum and sum of squared deviations of references with the row and without it to `sums` ``(2, 3, m)``.

    Deviations are from the mean of the row's own answers, so the means are computed first. Nothing is a difference of
    two sums, so single precision is enough, however far apart answers, means and variances are.
    """
    inside, out = sums
    weight = member.view(torch.uint8).to(log_odds.dtype)  # takes a quarter of the time of booleans
    torch.sum(weight, 0, out=inside[0])
    torch.sub(len(log_odds), inside[0], out=out[0])
    # `weighted`, `rest` and `squares` are one buffer, which each step below overwrites; so is `weight` at the end.
    weighted = log_odds * weight  # answers of references with the row, 0 for the others
    torch.sum(weighted, 0, out=inside[1])
    rest = torch.sub(log_odds, weighted, out=weighted)  # answers of references without the row, 0 for the others
    torch.sum(rest, 0, out=out[1])
    means = sums[:, 1] / sums[:, 0].clamp(min=1)
    own_means = torch.addcmul(means[1], means[0] - means[1], weight, out=rest)  # of the references on the same side
    squares = torch.sub(log_odds, own_means, out=own_means).square_()  # squared deviations from these means
    torch.sum(weight.mul_(squares), 0, out=inside[2])  # `weight` now has those of references with the row
    torch.sum(squares.sub_(weight), 0, out=out[2])  # and `squares` those of the others


def _means(total: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Return the mean of each row; a row without references gets that of all rows."""
    if bool(count.min() > 0):  # true in most queries, and saves passes
        return total / count
    return torch.where(count > 0, total / count, total.sum() / count.sum().clamp(min=1))


def _variances(spread: torch.Tensor, count: torch.Tensor, pooled: bool) -> torch.Tensor:
    """Return the variance of each row from its sum of squares `spread`, ``(m,)``.

    If `pooled`, and for rows with fewer than two references, it is the common variance: that of the answers to all rows
    around the means of their rows.
    """
    degrees = (count - 1).clamp_(min=0)
    if not pooled and bool(degrees.min() > 0):  # true in most queries, and saves passes
        return (spread / degrees).clamp_(min=MIN_VARIANCE)
    common = (spread.sum() / degrees.sum().clamp(min=1)).expand_as(spread)
    return (common if pooled else torch.where(degrees > 0, spread / degrees, common)).clamp(min=MIN_VARIANCE)


def _log_density(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    """Return the log density of a Gaussian up to a constant."""
    return (x - mean).square_().div_(variance).add_(variance.log()).neg_().div_(2)


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Lira(), Lira(global_variance=False), Lira(mode="offline-cdf"), Lira(mode="offline-logpdf")]
