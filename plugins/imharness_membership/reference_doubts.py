"""Why reference models can show no small number: their rows, or who was trained on them, may be in another order.

LiRA and the others compare the target's answer on a row with those of reference models on the same row. Where these are
of other rows, or are no log odds, they find nothing, so that such an audit looks good and says nothing.
"""

from collections.abc import Iterator

import numpy as np
import scipy

from imharness_membership.audit_inputs import Array
from imharness_membership.audit_references import KnownReferences
from imharness_membership.source_doubts import apart

COMPARED = 8
"""So many reference models at most are compared with the others, and with the target."""
LITTLE = 0.25
"""The share of what reference models have in common with each other, below which the target is said not to have it."""
MOST, RANKED = 0.75, 5000
"""The quantile of the agreements with reference models with which each is compared, on about so many rows."""
LESS = 0.6
"""The share of what reference models know of their rows, below which flags of the target's may be mixed up."""
BEYOND = 4.0
"""A difference is more than chance if it is so many of its standard errors."""


def doubts_of_references(target_odds: Array, member: Array, references: KnownReferences) -> Iterator[str]:
    """Yield in sentences why the answers of reference models do not seem to be what they should be.

    Args:
        target_odds: log odds of the target's true class, ``(n,)``.
        member: which rows the target was trained on, bool ``(n,)``.
        references: the answers of K reference models on the same rows.
    """
    sentence = (
        "Reference models agree with each other about which rows are hard (rank correlation {:.2f}), and {} does not "
        "agree with them ({:.2f}). Do all answers stand in the order of the target's rows, and are all of them log p - "
        "log(1 - p) of the true class?"
    )
    pairs = [("the target", target_odds, references.log_odds)]
    if references.views is not None and references.target_views is not None:
        pairs += [("what they answer to views", references.views.mean(axis=(0, 1)), references.log_odds)]
        pairs += [("what the target answers to views", references.target_views.mean(axis=0), references.log_odds)]
    for name, odds, others in pairs:
        common, theirs = _common(others), _correlation(odds, others.mean(axis=0))
        if theirs < LITTLE * common and common - theirs > BEYOND / np.sqrt(len(odds)):
            yield sentence.format(common, name, theirs)
            return
    yield from _doubts_of_one(target_odds, references.log_odds)
    yield from _doubts_of_source(member, references)
    if references.member.any():
        yield from _doubts_of_members(target_odds, member, references)


def _doubts_of_one(target_odds: Array, odds: Array) -> Iterator[str]:
    """Yield a sentence if the target agrees with most reference models, whose odds are ``(K, n)``, and not with one."""
    rows = np.arange(0, len(target_odds), max(1, len(target_odds) // RANKED))
    theirs = np.array([_correlation(target_odds[rows], each[rows]) for each in odds])
    most = float(np.quantile(theirs, MOST))
    strange = np.flatnonzero((theirs < LITTLE * most) & (most - theirs > BEYOND * np.sqrt(2 / len(rows))))
    if len(strange):
        yield (
            f"The target agrees with reference models about which rows are hard (rank correlation {most:.2f}), and "
            f"not with reference {strange[0]} ({theirs[strange[0]]:.2f}){_and(len(strange) - 1)}. Are its answers in "
            "the order of the target's rows?"
        )


def _and(more: int) -> str:
    return f" and {more} more" if more else ""


def _doubts_of_source(member: Array, references: KnownReferences) -> Iterator[str]:
    """Yield a sentence if models that saw neither find the target's members easier or harder than its non-members.

    Log odds are taken minus the mean of each model over rows that it was not trained on.
    """
    outside = ~references.member
    counts = outside.sum(axis=1, keepdims=True).clip(1)
    odds = references.log_odds - (references.log_odds * outside).sum(axis=1, keepdims=True) / counts
    seen = outside.sum(axis=0)
    mean = (odds * outside).sum(axis=0) / seen.clip(1)
    area = apart(mean[seen > 0], member[seen > 0])
    if area != 0.5:
        yield (
            "Reference models that were trained on neither tell the target's members from its non-members with an area "
            f"under the ROC curve of {area:.3f}: the two are not from one source, or were prepared in two ways."
        )


def _common(odds: Array) -> float:
    """Return the median rank correlation of a model's log odds ``(K, n)`` with the mean of the others."""
    total, count = odds.sum(axis=0), len(odds)
    return float(np.median([_correlation(each, (total - each) / (count - 1)) for each in odds[:COMPARED]]))


def _correlation(one: Array, other: Array) -> float:
    """Return Spearman's correlation, 0 where one of the two is constant."""
    ranks = [scipy.stats.rankdata(each) for each in (one, other)]
    return 0.0 if min(map(np.ptp, ranks)) == 0 else float(np.corrcoef(*ranks)[0, 1])


def _doubts_of_members(target_odds: Array, member: Array, references: KnownReferences) -> Iterator[str]:
    """Yield a sentence if reference models are no surer of the rows they were trained on, and the target is, or if they
    are far surer than the target.

    Log odds are taken minus their mean over the reference models, so that a row counts as hard for none.
    """
    mean = references.log_odds.mean(axis=0)
    theirs = [_gap(odds - mean, mask) for odds, mask in zip(references.log_odds, references.member, strict=True)]
    gaps, spreads = np.transpose(theirs)
    gap, spread = _gap(target_odds - mean, member)
    other, error = float(gaps.mean()), float(np.sqrt((spreads**2).sum())) / len(gaps)
    if other < LITTLE * gap and gap - other > BEYOND * np.hypot(spread, error):
        yield (
            f"The target's log odds are larger by {gap:.2f} on rows it was trained on, those of reference models by "
            f"{other:.2f} on theirs. Does `member` say of each reference model which rows it was trained on, in the "
            "order of its answers?"
        )
    further = float(gaps.std(ddof=1)) * np.sqrt(1 + 1 / len(gaps))
    if gap < LESS * other and other - gap > BEYOND * np.hypot(spread, further):
        yield (
            f"The target's log odds are larger by {gap:.2f} on rows it was trained on, those of reference models by "
            f"{other:.2f} on theirs. Are some of the target's rows flagged wrongly? If not, train reference models as "
            "the target is."
        )


def _gap(odds: Array, member: Array) -> tuple[float, float]:
    """Return the difference of the means on members and on others, and its standard error."""
    sides = [odds[member], odds[~member]]
    spread = sum(float(side.var()) / len(side) for side in sides)
    return float(sides[0].mean() - sides[1].mean()), float(np.sqrt(spread))
