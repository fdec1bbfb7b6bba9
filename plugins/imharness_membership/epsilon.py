"""An empirical epsilon from guesses of membership. It would be a lower bound of epsilon if rows were independent.

Guesses of members of an (epsilon, delta)-private model satisfy TPR <= exp(epsilon) FPR + delta, and so do guesses of
non-members (Kairouz, Oh & Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015, theorem 2.1). The
bound is log((TPR - delta) / FPR), with the lower end of TPR's and the upper end of FPR's Clopper-Pearson interval
(Jagielski, Ullman & Oprea, "Auditing Differentially Private Machine Learning", NeurIPS 2020, section 3). These
intervals count rows as independent. But all rows of a split are asked of one trained model, so the number is no bound:
it only says how much the guesses give away.
"""

from dataclasses import dataclass

import numpy as np
import scipy

Array = np.ndarray
LEVEL, DELTA = 0.95, 1e-5
THRESHOLDS = 50
"""The number of thresholds among which one is chosen: quantiles of the scores."""


@dataclass(frozen=True)
class Rule:
    """A rule that accuses rows: of being members, those with at least the threshold as their score.

    If `members` is false, it accuses the rows below the threshold of being non-members.
    """

    threshold: float
    members: bool


def epsilon_if_independent(
    right: Array, of: Array | int, wrong: Array, others: Array | int, delta: float = DELTA
) -> Array:
    """Return what would be a lower bound of epsilon with 95% confidence if rows were independent, at least 0.

    Args:
        right, of: how many rows are accused rightly, and how many rows there are of the kind that is accused.
        wrong, others: how many rows are accused wrongly, and how many rows there are of the other kind.
    """
    share = (1 - LEVEL) / 2
    low = np.where(right > 0, scipy.special.betaincinv(np.maximum(right, 1), of - right + 1, share), 0.0)
    high = np.where(wrong < others, scipy.special.betainccinv(wrong + 1, np.maximum(others - wrong, 1), share), 1.0)
    return np.log(np.maximum((low - delta) / high, 1.0))


def chosen_rule(score: Array, member: Array, delta: float = DELTA) -> tuple[float, Rule]:
    """Return the largest epsilon of any rule on these rows, and that rule.

    The epsilon is too large, because the rule was chosen on the rows; measure the rule on other rows, with `counted`.
    """
    ranked = np.sort(score)
    nearest = np.rint(np.linspace(0, 1, THRESHOLDS + 2)[1:-1] * (len(ranked) - 1)).astype(np.int64)
    tried = np.unique(ranked[nearest])
    members_above, members, others_above, others = _counts(score, member, tried, members=True)
    # rules that accuse of being a member, one for each threshold, then rules that accuse of being a non-member
    right = np.concatenate([members_above, others - others_above])
    wrong = np.concatenate([others_above, members - members_above])
    sizes = np.repeat([[members, others], [others, members]], len(tried), axis=0).T
    epsilons = epsilon_if_independent(right, sizes[0], wrong, sizes[1], delta)
    best = int(epsilons.argmax())
    return float(epsilons[best]), Rule(float(tried[best % len(tried)]), best < len(tried))


def counted(rule: Rule, score: Array, member: Array) -> Array:
    """Return the arguments right, of, wrong and others of `epsilon_if_independent` for a rule on rows, int ``(4,)``.

    The rows must not be those on which the rule was chosen. Counts of several splits may be added up, even where each
    split has its own rule.
    """
    return np.array(_counts(score, member, np.array(rule.threshold), rule.members))


def _counts(score: Array, member: Array, thresholds: Array, members: bool) -> tuple[Array, int, Array, int]:
    """Return how many rows are accused rightly, of how many, and wrongly, of how many, at each threshold.

    `members`: as in `Rule`.
    """
    inside, outside = np.sort(score[member]), np.sort(score[~member])
    members_below, others_below = np.searchsorted(inside, thresholds), np.searchsorted(outside, thresholds)
    if members:
        return len(inside) - members_below, len(inside), len(outside) - others_below, len(outside)
    return others_below, len(outside), members_below, len(inside)
