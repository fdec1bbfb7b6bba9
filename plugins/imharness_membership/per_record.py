"""True-positive rates whose false-positive rate holds for each record, and not for all records together.

Jälkö, Pradhan, Räisä & Honkela, "On Reliability of Efficient Membership Inference Vulnerability Evaluation" (arXiv
2605.25819, 2026), of which the abstract and summaries were read: one threshold for the scores of all records accuses
some non-members far more often than others, and efficient LiRA shows too much. The correction here is the textbook's, a
test of each record with the answers of its own references.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from imharness.membership import Estimate
from imharness_membership.audit_references import KnownReferences
from imharness_membership.intervals import LEVEL

Array = np.ndarray
FPR = 0.01
ENOUGH = 8
"""With fewer references without a record, a small share of members found is no sign of safety: answers have to be 5
standard deviations off with 4 of them, 39 with 2, and 3.2 with 8."""


@dataclass(frozen=True)
class PerRecord:
    """What a test of each record finds that accuses no non-member with more than a probability `level`.

    Args:
        level: the level of the test.
        tpr: the share of members that it calls members, with Clopper and Pearson's 95% interval.
        fpr: the same of non-members, which is `level` in the mean if the test's assumption is true, or less.
        references: the number of reference models without a record, its median over the records.
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
    """Return what is found in the target's log odds ``(n,)`` of rows of which `member`, bool ``(n,)``, are members."""
    theirs, answers = over_views(observed, references.log_odds, references.target_views, references.views)
    caught = p_values(theirs, answers, ~references.member) <= FPR
    count = int(np.median((~references.member).sum(axis=0)))
    return PerRecord(FPR, _share(caught[member]), _share(caught[~member]), count)


def over_views(observed: Array, answers: Array, target_views: Array | None, views: Array | None) -> tuple[Array, Array]:
    """Return the means over a row and its views of the target's log odds ``(n,)`` and of K references' ``(K, n)``.

    `target_views` ``(v, n)`` and `views` ``(K, v, n)``: those of altered copies, where there are any.
    """
    if views is None or target_views is None:
        return observed, answers
    every = np.concatenate([answers[:, None], views], axis=1)
    return np.concatenate([observed[None], target_views]).mean(axis=0, dtype=np.float64), every.mean(
        axis=1, dtype=np.float64
    )


def p_values(observed: Array, answers: Array, outside: Array) -> Array:
    """Return the probability that a model without the row answers at least so surely, ``(n,)``, from K that did.

    Where a model without the row would answer as Gaussians do, the answer's distance from their mean, in standard
    deviations of a new answer, has Student's t distribution with one degree of freedom less than there are models (the
    prediction interval). Where there are so many models that their ranks reach the level, the share (1 + models that
    answer as surely) / (1 + models) takes its place, which assumes no distribution; also where all answer alike.

    Args:
        observed: the target's log odds ``(n,)``.
        answers: those of reference models, ``(K, n)``; `outside`: bool ``(K, n)``, true where one was not trained on
            the row. A row with fewer than two such models has the p-value 1.
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
    interval = scipy.stats.binomtest(int(caught.sum()), len(caught)).proportion_ci(LEVEL, method="exact")
    return Estimate(float(caught.mean()), float(interval.low), float(interval.high))


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
