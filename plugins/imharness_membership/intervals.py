"""Intervals of what an attack finds out: balanced accuracy, area under the ROC curve, true-positive rates."""

from dataclasses import dataclass

import numpy as np
import scipy

from imharness.leaderboard import NotTestable, tpr_at_fpr
from imharness.membership import BalancedAccuracy, Estimate

Array = np.ndarray
LEVEL = 0.95


def accuracy_of(caught: Array, member: Array) -> BalancedAccuracy:
    """Return the balanced accuracy of guesses, bool ``(n,)``, true for rows called members; `member`: which are."""
    sides = (caught[member], ~caught[~member])
    return BalancedAccuracy.of(int(sides[0].sum()), len(sides[0]), int(sides[1].sum()), len(sides[1]))


@dataclass(frozen=True)
class Area:
    """The area under a ROC curve, ties counting half, with an interval that holds from 20 rows a side.

    The interval is that of DeLong, DeLong & Clarke-Pearson (Biometrics 1988) after two rows are added to each side, one
    that scores higher than all and one that scores lower, as Agresti & Caffo add a success and a failure to each of two
    shares (The American Statistician 2000). Without these rows it has no width where all scores are equal, or where
    members and others do not overlap. In simulations with continuous, tied, binary and mixed scores and areas from 0.5
    to 0.99, it covers with at least 0.95 at 20 rows a side, and DeLong's with 0.32 to 0.96.

    Args:
        value: the area; `centre` and `error` are the area with these rows and its standard error.
    """

    value: float
    centre: float
    error: float

    def at(self, level: float) -> Estimate:
        """Return the area with the interval of a level."""
        reach = scipy.stats.norm.ppf((1 + level) / 2) * self.error
        low, high = min(self.value, self.centre - reach), max(self.value, self.centre + reach)
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
    """Return the true-positive rate at the lowest threshold that accuses a further non-member with at most `fpr`.

    See `imharness.leaderboard.tpr_at_fpr`. The interval is Clopper & Pearson's, for this threshold. None where there
    are too few non-members for one.
    """
    try:
        rate = tpr_at_fpr(scores, member, fpr)
    except NotTestable:
        return None
    inside = int(member.sum())
    interval = scipy.stats.binomtest(round(rate * inside), inside).proportion_ci(LEVEL, method="exact")
    return Estimate(rate, float(interval.low), float(interval.high))
