"""The figures of evaluators: balanced accuracy, AUC, and true-positive rates at low false-positive rates."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

LOW, LOWEST = 0.01, 0.001
"""The false-positive rate at which defenses are ranked by default, and a stricter one, for a further column."""
EXPECTED = 10
"""A rate is given only if it accuses at least so many of the non-members of all splits in expectation: with 1,000
non-members for 1 %."""
EXACT = 5
"""A rate is named after the false-positive rate that was asked for only if it accuses at least so many non-members of a
split in expectation: with 500 non-members for 1 %. With 160, the threshold for 1 % accuses 0.62 % in fact, and the
intervals cover the rate at 1 % in half of studies only."""


@dataclass(frozen=True)
class Figure:
    """A figure of evaluators: its words; for a true-positive rate, `fpr` is the false-positive rate, else 0."""

    label: str
    meaning: str
    fpr: float = 0.0
    decimals: int = 3
    reached: float = 0.0
    """The false-positive rate that few non-members reach in place of `fpr`, see `reached_fpr`; 0 with enough."""

    @property
    def percent(self) -> str:
        """The false-positive rate in %, as text."""
        return f"{100 * self.reached:.2g}" if self.reached else f"{100 * self.fpr:g}"

    def ranks(self, non_members: np.ndarray) -> bool:
        """Say whether splits have enough non-members ``(splits,)`` to rank defenses by it; see docs/ranking.md."""
        return not self.fpr or bool(self.fpr * (non_members.max(initial=0) + 1) >= EXPECTED)

    def why_not(self, non_members: np.ndarray) -> str:
        """Return why it is not defined with so many non-members in each split ``(splits,)``; empty if it is."""
        if not self.fpr or not len(non_members):
            return ""
        for word, most, least in (
            ("a split has", int(non_members.max()), math.ceil(1 / self.fpr - 1e-9) - 1),
            ("all splits have", int(non_members.sum()), round(EXPECTED / self.fpr)),
        ):
            if most < least:
                return f"not defined: {word} {most:,} non-members, and it takes {least:,}"
        return ""


Figures = Mapping[str, Figure]
"""Key of a column -> figure."""


def figures_at(fpr: float = LOW) -> Figures:
    """Return the figures of evaluators, first the one that ranks: the true-positive rate at `fpr`."""
    rates = {rate_key(rate): _rate(rate) for rate in dict.fromkeys((fpr, LOWEST))}
    first = rate_key(fpr)
    return {
        first: rates.pop(first),
        "accuracy": Figure(
            "balanced accuracy", "How often a guess is right whether a record was in the training data; 0.5 is a coin"
        ),
        "auc": Figure("AUC", "Area under the ROC curve, 0.5 is chance"),
        **rates,
    }


def with_reached_rates(kinds: Figures, non_members: int) -> Figures:
    """Return the figures with true-positive rates that are named by the false-positive rate they reach.

    With 160 non-members, "TPR at 1% FPR" becomes "TPR at 0.62% FPR"; with at least `EXACT` / fpr - 1, names stay.
    """
    reached = {key: reached_fpr(figure.fpr, non_members) for key, figure in kinds.items()}
    return {
        key: _rate(figure.fpr, reached[key])
        if 0 < reached[key] < figure.fpr and figure.fpr * (non_members + 1) < EXACT
        else figure
        for key, figure in kinds.items()
    }


def reached_fpr(fpr: float, non_members: int) -> float:
    """Return the false-positive rate of the threshold for at most `fpr`; see `imharness.statistics.roc.accusable`.

    With 160 non-members and 1 %, one of 161 is accused: 0.62 %.
    """
    return math.floor(fpr * (non_members + 1) + 1e-9) / (non_members + 1)


def rate_key(fpr: float) -> str:
    """Return the key of the true-positive rate at a false-positive rate: ``tpr1`` at 1 %, ``tpr01`` at 0.1 %."""
    return f"tpr{100 * fpr:g}".replace(".", "")


def _rate(fpr: float, reached: float = 0.0) -> Figure:
    """Return the figure of the true-positive rate at `fpr`, named by the rate that is `reached` instead, if any."""
    asked_for = f"{100 * fpr:g}%"
    percent = f"{100 * reached:.2g}%" if reached else asked_for
    few = f"; TPR at {asked_for} FPR takes {round(EXACT / fpr):,} non-members" if reached else ""
    return Figure(
        f"TPR at {percent} FPR",
        f"Share of members found by a threshold that accuses a further non-member with at most {percent}{few}",
        fpr,
        reached=reached,
    )


def most_non_members(member: Iterable[np.ndarray]) -> int:
    """Return the largest number of non-members of a condition. `member`: which rows of each are members."""
    return max((int((~inside.astype(bool)).sum()) for inside in member), default=0)
