"""Balanced accuracy, area under the ROC curve and true-positive rates of an attack, with intervals."""

from dataclasses import dataclass

import numpy as np
import scipy

from imharness.leaderboard import NotTestable, tpr_at_fpr
from imharness.membership import BalancedAccuracy, Estimate

Array = np.ndarray
LEVEL = 0.95


def accuracy_of(caught: Array, member: Array) -> BalancedAccuracy:
    """Return the balanced accuracy of guesses.

    `caught`: bool ``(n,)``, the rows that an attack calls members; `member`: bool ``(n,)``, the rows that are members.
    """
    hits, spared = caught[member], ~caught[~member]
    return BalancedAccuracy.of(int(hits.sum()), len(hits), int(spared.sum()), len(spared))


@dataclass(frozen=True)
class Area:
    """The area under a ROC curve, ties counting half, with an interval that holds from 20 members and 20 non-members.

    The interval is that of DeLong, DeLong & Clarke-Pearson (Biometrics 1988), after two artificial rows are added to
    members and to non-members: one scores higher than all rows, one lower. Agresti & Caffo (The American Statistician
    2000) add a success and a failure to each of two shares in the same way. Without the artificial rows, the interval
    has no width where all scores are equal, or where members and non-members do not overlap. In simulations with
    continuous, tied, binary and mixed scores, areas from 0.5 to 0.99 and 20 rows a side, it covers the true area in at
    least 95% of cases, and DeLong's own interval in 32% to 96%.

    Args:
        value: the area without the artificial rows.
        centre, error: the area with the artificial rows, and its standard error.
    """

    value: float
    centre: float
    error: float

    def at(self, level: float) -> Estimate:
        """Return the area with its interval at a confidence level, such as 0.95."""
        half_width = scipy.stats.norm.ppf((1 + level) / 2) * self.error
        low, high = min(self.value, self.centre - half_width), max(self.value, self.centre + half_width)
        return Estimate(self.value, float(max(0.0, low)), float(min(1.0, high)))


def area_under(scores: Array, member: Array) -> Area:
    """Return the area under the ROC curve: O(n log n), by ranks (Sun & Xu, IEEE SPL 2014), in float64."""
    extremes = [-np.inf, np.inf]
    inside, outside = (np.sort(np.r_[scores[side].astype(np.float64), extremes]) for side in (member, ~member))
    ranks, among_members, among_others = map(scipy.stats.rankdata, (np.r_[inside, outside], inside, outside))
    beaten = (ranks[: len(inside)] - among_members) / len(outside)  # by each member, as a share of the others
    beating = 1 - (ranks[len(inside) :] - among_others) / len(inside)  # each other row, as a share of the members
    error = np.sqrt(sum(np.var(values, ddof=1) / len(values) for values in (beaten, beating)))
    members, others = len(inside) - 2, len(outside) - 2
    wins = beaten.mean() * len(inside) * len(outside) - members - others - 2  # without the rows that were added
    return Area(float(np.rint(2 * wins) / (2 * members * others)), float(beaten.mean()), float(error))


def rate_at(scores: Array, member: Array, fpr: float) -> Estimate | None:
    """Return the true-positive rate at a false-positive rate; see `imharness.leaderboard.tpr_at_fpr` for the threshold.

    The interval is Clopper & Pearson's and takes the threshold as fixed. None where there are too few non-members for
    a threshold.
    """
    try:
        rate = tpr_at_fpr(scores, member, fpr)
    except NotTestable:
        return None
    inside = int(member.sum())
    interval = scipy.stats.binomtest(round(rate * inside), inside).proportion_ci(LEVEL, method="exact")
    return Estimate(rate, float(interval.low), float(interval.high))
