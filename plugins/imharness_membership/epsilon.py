"""An empirical epsilon from guesses of membership: a lower bound if rows were independent, and no bound as they are.

Guesses of members of an (epsilon, delta)-private model satisfy TPR <= exp(epsilon) FPR + delta, and so do guesses of
non-members (Kairouz, Oh & Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015, theorem 2.1). The
bound is log((TPR - delta) / FPR) at the ends of both rates' Clopper-Pearson intervals (Jagielski, Ullman & Oprea,
"Auditing Differentially Private Machine Learning", NeurIPS 2020, section 3). That counts rows as
independent, and all rows of a split meet one trained model: the number tells how much guesses give away, not more.
"""

from dataclasses import dataclass

import numpy as np
import scipy

Array = np.ndarray
LEVEL, DELTA = 0.95, 1e-5
THRESHOLDS = 50


@dataclass(frozen=True)
class Rule:
    """The accused rows: those with at least this score of being members, or those below it of being non-members."""

    threshold: float
    members: bool


def epsilon_if_independent(
    right: Array, of: Array | int, wrong: Array, others: Array | int, delta: float = DELTA
) -> Array:
    """Return what would be a lower bound of epsilon if rows were independent, at least 0.

    The intervals of both rates would hold together with 95% confidence.

    Args:
        right, of: number of rows accused rightly, and the number of rows they are taken from.
        wrong, others: number of rows accused wrongly, and the number of rows they are taken from.
    """
    share = (1 - LEVEL) / 2
    low = np.where(right > 0, scipy.special.betaincinv(np.maximum(right, 1), of - right + 1, share), 0.0)
    high = np.where(wrong < others, scipy.special.betainccinv(wrong + 1, np.maximum(others - wrong, 1), share), 1.0)
    return np.log(np.maximum((low - delta) / high, 1.0))


def chosen_rule(score: Array, member: Array, delta: float = DELTA) -> tuple[float, Rule]:
    """Return the largest epsilon of a rule on these rows, which the choice makes too large, and that rule."""
    ranked = np.sort(score)
    nearest = np.rint(np.linspace(0, 1, THRESHOLDS + 2)[1:-1] * (len(ranked) - 1)).astype(np.int64)
    tried = np.unique(ranked[nearest])
    above, of, below, others = _counts(score, member, tried, True)
    right = np.concatenate([above, others - below])  # accused members, then accused non-members
    wrong = np.concatenate([below, of - above])
    sizes = np.repeat([[of, others], [others, of]], len(tried), axis=0).T
    epsilons = epsilon_if_independent(right, sizes[0], wrong, sizes[1], delta)
    best = int(epsilons.argmax())
    return float(epsilons[best]), Rule(float(tried[best % len(tried)]), best < len(tried))


def counted(rule: Rule, score: Array, member: Array) -> Array:
    """Return the counts of a rule on rows on which it was not chosen, as `epsilon_if_independent` takes them ``(4,)``.

    Counts of several splits may be added up, whichever rule each of them has.
    """
    return np.array(_counts(score, member, np.array(rule.threshold), rule.members))


def _counts(score: Array, member: Array, thresholds: Array, members: bool) -> tuple[Array, int, Array, int]:
    inside, outside = np.sort(score[member]), np.sort(score[~member])
    below, above = np.searchsorted(inside, thresholds), np.searchsorted(outside, thresholds)
    if members:
        return len(inside) - below, len(inside), len(outside) - above, len(outside)
    return above, len(outside), below, len(inside)
