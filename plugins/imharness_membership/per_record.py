"""A test of membership for each record, whose false-positive rate holds record by record, and not only on average.

Jälkö, Pradhan, Räisä & Honkela, "On Reliability of Efficient Membership Inference Vulnerability Evaluation" (arXiv
2605.25819, 2026; read were the abstract and summaries): with one threshold for the scores of all records, some
non-members are accused far more often than others, and efficient LiRA overstates the leak. The correction here is a
textbook one: each record is tested against the answers of the reference models that were not trained on it.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from imharness.membership import Estimate
from imharness_membership.audit_references import KnownReferences
from imharness_membership.intervals import LEVEL

Array = np.ndarray
FPR = 0.01
"""The level of the test."""
ENOUGH = 8
"""The number of reference models without a record from which on the test has power. An answer must be 3.2 standard
deviations off with 8 of them, 5 with 4, and 39 with 2, so with few models the test finds nothing, whatever leaks."""


@dataclass(frozen=True)
class PerRecord:
    """The results of a test of each record, which accuses each non-member with a probability of at most `level`.

    Args:
        level: the level of the test.
        tpr: the share of members that it calls members, with Clopper and Pearson's 95% interval.
        fpr: the share of non-members that it calls members; at most `level` on average if the test's assumption holds.
        references: the number of reference models that were not trained on a record, the median over records.
    """

    level: float
    tpr: Estimate
    fpr: Estimate
    references: int

    def __str__(self) -> str:
        return (
            f"Calibrated for each record: at {100 * self.level:g} % false accusations {_percent(self.tpr)} of the "
            f"members are found, and {_percent(self.fpr)} of the non-members accused; half of them are compared with "
            f"at least {self.references} reference models without them{self._caution}."
        )

    @property
    def _caution(self) -> str:
        return "" if self.references >= ENOUGH else f", and fewer than {ENOUGH} find little, whatever the model leaks"


def per_record(observed: Array, references: KnownReferences, member: Array) -> PerRecord:
    """Return the results of the test of all rows.

    `observed`: the target's log odds ``(n,)``; `member`: which rows are its members, bool ``(n,)``.
    """
    of_target, answers = over_views(observed, references.log_odds, references.target_views, references.views)
    caught = p_values(of_target, answers, ~references.member) <= FPR
    count = int(np.median((~references.member).sum(axis=0)))
    return PerRecord(FPR, _share(caught[member]), _share(caught[~member]), count)


def over_views(observed: Array, answers: Array, target_views: Array | None, views: Array | None) -> tuple[Array, Array]:
    """Return the target's log odds ``(n,)`` and those of K references ``(K, n)``, as means over a row and its views.

    Args:
        observed, answers: the log odds of the target ``(n,)`` and of the references ``(K, n)`` for the rows themselves.
        target_views, views: the same for v altered copies, ``(v, n)`` and ``(K, v, n)``; None without copies.
    """
    if views is None or target_views is None:
        return observed, answers
    of_target = np.concatenate([observed[None], target_views])  # (1 + v, n)
    of_references = np.concatenate([answers[:, None], views], axis=1)  # (K, 1 + v, n)
    return of_target.mean(axis=0, dtype=np.float64), of_references.mean(axis=1, dtype=np.float64)


def p_values(observed: Array, answers: Array, outside: Array) -> Array:
    """Return for each row the probability that a model without the row answers at least so surely, ``(n,)``.

    It is estimated from the reference models that were not trained on the row. If their answers are Gaussian, then the
    distance of one more answer from their mean, in standard deviations of a new answer, has Student's t distribution
    with one degree of freedom less than there are models (the prediction interval). If there are at least 1 / `FPR` - 1
    models, or if all give the same answer, the p-value is (1 + models that answer as surely) / (1 + models), which
    assumes no distribution.

    Args:
        observed: the target's log odds ``(n,)``.
        answers: the log odds of reference models, ``(K, n)``.
        outside: bool ``(K, n)``, true where a reference model was not trained on the row. A row with fewer than two
            such models has the p-value 1.
    """
    count = outside.sum(axis=0)
    values = np.where(outside, answers, 0).astype(np.float64)
    mean = values.sum(axis=0) / count.clip(1)
    spread = np.sqrt((np.square(values - mean) * outside).sum(axis=0) / (count - 1).clip(1))
    rank = (1 + ((answers >= observed) & outside).sum(axis=0)) / (1 + count)
    distance = (observed - mean) / np.where(spread > 0, spread, 1) / np.sqrt(1 + 1 / count.clip(1))
    student = scipy.stats.t.sf(distance, (count - 1).clip(1))
    by_rank = (spread == 0) | (count + 1 >= 1 / FPR)
    return np.where(count < 2, 1.0, np.where(by_rank, rank, student))


def _share(caught: Array) -> Estimate:
    """Return the share of true values with its exact 95% interval."""
    interval = scipy.stats.binomtest(int(caught.sum()), len(caught)).proportion_ci(LEVEL, method="exact")
    return Estimate(float(caught.mean()), float(interval.low), float(interval.high))


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
