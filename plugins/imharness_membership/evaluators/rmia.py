"""RMIA: compares the row's likelihood ratio with those of a population of rows.

Zarifzadeh, Liu & Shokri, "Low-Cost High-Power Membership Inference Attacks" (ICML 2024), equations 2 to 4; the constant
of offline attacks is tuned as in the authors' Privacy Meter, on a model whose members are known. Ties are broken by the
row's own ratio, so for one model the order of rows is also that of InfoRMIA (Tao & Shokri, arXiv 2510.05582, of which
the abstract and summaries were read): its score is the logarithm of that ratio, plus a constant of the population.
"""

from typing import Literal

import numpy as np
import torch
from pydantic import Field

from imharness.leaderboard import auc
from imharness.membership import Info, MembershipEvaluator, References, hookimpl
from imharness_membership.likelihood import ReferenceEvaluator

CONSTANTS = tuple(step / 10 for step in range(11))
"""The constants among which one is tuned."""


class Rmia(ReferenceEvaluator):
    """The share of population rows whose likelihood ratio a row exceeds by a factor."""

    info = Info(id="harness/rmia", version="3", paper="zarifzadeh2024")
    mode: Literal["offline", "tuned", "online"] = Field(
        default="offline",
        description="offline: references without the row; tuned: the same, with the constant that attacks a reference "
        "best; online: references with and without the row.",
    )
    gamma: float = Field(default=1.0, gt=0, le=100, description="Factor by which the ratio must be larger.")
    offline: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="The constant a: a model trained on a row gives it a p_out + 1 - a, one that was not gives p_out.",
    )

    @property
    def needs_inside(self) -> bool:
        """Whether some references must have been trained on the rows."""
        return self.mode != "offline"

    def statistic(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, trained: int
    ) -> torch.Tensor:
        """Return the share of the population that the row exceeds; ties are broken by the row's ratio.

        Where models were asked about several views of a row, a population row is exceeded if most of the views do so;
        the population itself is asked without views. A row on which every reference was trained is compared with all
        of them.
        """
        answers, seen = _all_views(references, observed)
        outside = _mean_probability(answers, ~references.member, else_all=True)
        inside = _mean_probability(answers, references.member) if self.mode == "online" else None
        constant = self._constant(references, inside, outside)
        expected = _expected(outside, constant)
        if inside is not None:
            expected = torch.where(inside.isnan(), expected, (inside + outside) / 2)
        ratio = _of_most(seen.sigmoid() / expected.clamp(min=1e-30))
        others = _expected(references.population_log_odds.sigmoid().mean(dim=0), constant)
        theirs = population.sigmoid() / others.clamp(min=1e-30)
        beaten = torch.searchsorted(_ascending(self.gamma * theirs), ratio.contiguous(), right=True)
        return (beaten + 0.5 * ratio / (1 + ratio)) / len(theirs)

    def _constant(self, references: References, inside: torch.Tensor | None, outside: torch.Tensor) -> float:
        """Return a of ``inside = a outside + 1 - a``: as given, tuned, or, online, fitted to the references' rows."""
        if inside is not None:
            seen = ~inside.isnan()
            room = (1 - outside[seen]).sum()
            return 1 - float(((inside - outside)[seen].sum() / room.clamp(min=1e-30)).clamp(0, 1))
        member = references.member[0]
        if self.mode == "offline" or len(references.member) < 2 or member.all() or not member.any():
            return self.offline
        answers, seen = _all_views(references, None)
        others = _mean_probability(answers[1:], ~references.member[1:], else_all=True)
        areas = [
            auc(_of_most(seen.sigmoid() / _expected(others, constant)).cpu().numpy(), member.cpu().numpy())
            for constant in CONSTANTS
        ]
        return CONSTANTS[areas.index(max(areas))]


def _all_views(references: References, observed: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the answers of references ``(K, 1 + v, m)`` and of the model under attack ``(1 + v, m)``.

    `observed`: its answers ``(m,)`` to the rows themselves; None for an attack on the first reference.
    """
    views, theirs = references.view_log_odds, references.target_view_log_odds
    answers = references.log_odds[:, None]
    if views is None or theirs is None:
        return answers, answers[0] if observed is None else observed[None]
    answers = torch.cat([answers, views], dim=1)
    return answers, answers[0] if observed is None else torch.cat([observed[None], theirs])


def _mean_probability(log_odds: torch.Tensor, chosen: torch.Tensor, *, else_all: bool = False) -> torch.Tensor:
    """Return the mean ``(1 + v, m)`` over the chosen references ``(K, m)`` of a row.

    Where a row has none it is NaN, or with `else_all` the mean over all of them.
    """
    mask = chosen.float()
    count = mask.sum(dim=0)
    if else_all and not bool(count.min() > 0):
        mask = torch.where(count > 0, mask, torch.ones_like(mask))
        count = mask.sum(dim=0)
    return log_odds.sigmoid().mul_(mask[:, None]).sum(dim=0).div_(count)


def _ascending(values: torch.Tensor) -> torch.Tensor:
    """Return the values sorted; numpy does it several times faster on the CPU."""
    return torch.from_numpy(np.sort(values.numpy())) if values.device.type == "cpu" else values.sort().values


def _of_most(ratios: torch.Tensor) -> torch.Tensor:
    """Return the largest ratio ``(m,)`` that more than half of the views ``(1 + v, m)`` reach."""
    return ratios[0] if len(ratios) == 1 else ratios.median(dim=0).values


def _expected(outside: torch.Tensor, constant: float) -> torch.Tensor:
    """Return the mean of ``p_out`` and ``a p_out + 1 - a``."""
    return (1 + constant) / 2 * outside + (1 - constant) / 2


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Rmia(), Rmia(mode="tuned"), Rmia(mode="online")]
