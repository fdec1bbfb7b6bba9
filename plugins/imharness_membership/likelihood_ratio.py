"""The base of attacks by likelihood ratios: the target's probability of a row's class, divided by the expected one.

Zarifzadeh, Liu & Shokri, "Low-Cost High-Power Membership Inference Attacks" (ICML 2024), equations 2 to 4; the constant
of offline attacks is tuned as in the authors' Privacy Meter, on a model whose members are known.
"""

from typing import Any, Literal

import torch
from pydantic import Field

from imharness.leaderboard import auc
from imharness.membership import References
from imharness_membership.likelihood import ReferenceEvaluator

CONSTANTS = tuple(step / 10 for step in range(11))
"""The constants among which one is tuned."""
SMALLEST = 1e-30
"""Probabilities are raised to at least this before something is divided by them."""
OFFLINE: Any = Field(
    default=0.3,
    ge=0,
    le=1,
    description="The constant a: a model trained on a row gives it a p_out + 1 - a, one that was not gives p_out.",
)
"""The setting that evaluators call `offline`."""


class RatioEvaluator(ReferenceEvaluator):
    """Compares two probabilities of a row's true class: p(x | target) by the target, and p(x), the mean over models.

    p(x) is the mean over models that were trained on the row, and models that were not. Of the former, offline attacks
    have none; they estimate their probability from that of the latter, p_out, as a p_out + 1 - a.
    """

    mode: Literal["offline", "tuned", "online"] = Field(
        default="offline",
        description="offline: references without the row; tuned: the same, with the constant that attacks a reference "
        "best; online: references with and without the row.",
    )

    @property
    def needs_inside(self) -> bool:
        """Whether some references must have been trained on the rows: `tuned` attacks the first one, to choose a."""
        return self.mode != "offline"

    def ratios(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, offline: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the ratios p(x | target) / p(x) of rows ``(m,)``, those of the population ``(p,)``, and p(z) ``(p,)``.

        p(z) is the expected probability of a row z of the population. Where models were asked about several views of a
        row, its ratio is the largest that most of the views reach; the population is asked without views. A row on
        which every reference was trained is compared with all of them.
        """
        answers, attacked = _all_views(references, observed)
        outside = _mean_probability(answers, ~references.member, else_all=True)
        inside = _mean_probability(answers, references.member) if self.mode == "online" else None
        constant = self._constant(references, inside, outside, offline)
        expected = _expected(outside, constant)
        if inside is not None:
            expected = torch.where(inside.isnan(), expected, (inside + outside) / 2)
        ratio = _of_most(attacked.sigmoid() / expected.clamp(min=SMALLEST))
        population_expected = _expected(references.population_log_odds.sigmoid().mean(dim=0), constant)
        population_ratio = population.sigmoid() / population_expected.clamp(min=SMALLEST)
        return ratio, population_ratio, population_expected

    def _constant(
        self, references: References, inside: torch.Tensor | None, outside: torch.Tensor, offline: float
    ) -> float:
        """Return the constant a of ``inside = a outside + 1 - a``.

        Online it is fitted to the references' answers; tuned, it is the one with which an attack on the first reference
        has the largest AUC; otherwise, and where the first reference cannot be attacked, it is `offline`.
        """
        if inside is not None:
            has_inside = ~inside.isnan()
            room = (1 - outside[has_inside]).sum()
            return 1 - float(((inside - outside)[has_inside].sum() / room.clamp(min=SMALLEST)).clamp(0, 1))
        member = references.member[0]
        if self.mode == "offline" or len(references.member) < 2 or member.all() or not member.any():
            return offline
        answers, attacked = _all_views(references, None)
        others = _mean_probability(answers[1:], ~references.member[1:], else_all=True)
        areas = [
            auc(_of_most(attacked.sigmoid() / _expected(others, constant)).cpu().numpy(), member.cpu().numpy())
            for constant in CONSTANTS
        ]
        return CONSTANTS[areas.index(max(areas))]


def _all_views(references: References, observed: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the answers of references ``(K, 1 + v, m)`` and of the model under attack ``(1 + v, m)``.

    `observed`: its answers ``(m,)`` to the rows themselves; None for an attack on the first reference.
    """
    views, target_views = references.view_log_odds, references.target_view_log_odds
    answers = references.log_odds[:, None]
    if views is None or target_views is None:
        return answers, answers[0] if observed is None else observed[None]
    answers = torch.cat([answers, views], dim=1)
    return answers, answers[0] if observed is None else torch.cat([observed[None], target_views])


def _mean_probability(log_odds: torch.Tensor, chosen: torch.Tensor, *, else_all: bool = False) -> torch.Tensor:
    """Return the mean probability ``(1 + v, m)`` of each row's class over the references that are chosen for the row.

    `chosen`: bool ``(K, m)``. For a row without a chosen reference the mean is NaN, or with `else_all` that over all
    references.
    """
    mask = chosen.float()
    count = mask.sum(dim=0)
    if else_all and not bool(count.min() > 0):
        mask = torch.where(count > 0, mask, torch.ones_like(mask))
        count = mask.sum(dim=0)
    return log_odds.sigmoid().mul_(mask[:, None]).sum(dim=0).div_(count)


def _of_most(ratios: torch.Tensor) -> torch.Tensor:
    """Return the largest ratio ``(m,)`` that more than half of the views ``(1 + v, m)`` reach."""
    return ratios[0] if len(ratios) == 1 else ratios.median(dim=0).values


def _expected(outside: torch.Tensor, constant: float) -> torch.Tensor:
    """Return the mean of ``p_out`` and ``a p_out + 1 - a``."""
    return (1 + constant) / 2 * outside + (1 - constant) / 2
