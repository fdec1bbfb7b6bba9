"""Finds mistakes in the answers of reference models: rows or masks of members in another order, or no log odds.

LiRA and similar attacks compare the target's answer to a row with those of reference models to the same row. If the
references' answers belong to other rows, or are no log odds, the attacks find nothing: the audit looks good and says
nothing.
"""

from collections.abc import Iterator

import numpy as np
import scipy

from imharness_membership.audit_inputs import Array
from imharness_membership.audit_references import KnownReferences
from imharness_membership.source_doubts import apart

COMPARED = 8
"""The largest number of reference models that are compared with the others."""
LITTLE = 0.25
"""A model does not agree with the references if its correlation with them is below this share of their correlation with
each other. Likewise for a gap in log odds."""
MOST = 0.75
"""The target's correlation with each reference is compared with this quantile of its correlations with all of them."""
RANKED = 5000
"""These correlations are computed on about so many rows."""
LESS = 0.6
"""Flags of the target may be mixed up if its gap in log odds is below this share of the references' mean gap."""
BEYOND = 4.0
"""A difference of more than so many standard errors is not due to chance."""


def doubts_of_references(target_odds: Array, member: Array, references: KnownReferences) -> Iterator[str]:
    """Yield a sentence for each mistake that the answers of reference models seem to have.

    Args:
        target_odds: log odds of the target's true class, ``(n,)``.
        member: which rows the target was trained on, bool ``(n,)``.
        references: the answers of K reference models on the same rows.
    """
    sentence = (
        "Reference models agree with each other about which rows are hard (rank correlation {:.2f}), and {} does not "
        "agree with them ({:.2f}). Are all answers in the order of the target's rows, and are all of them log p - "
        "log(1 - p) of the true class?"
    )
    pairs = [("the target", target_odds, references.log_odds)]
    if references.views is not None and references.target_views is not None:
        pairs += [("what they answer to views", references.views.mean(axis=(0, 1)), references.log_odds)]
        pairs += [("what the target answers to views", references.target_views.mean(axis=0), references.log_odds)]
    for name, odds, others in pairs:
        among_references, with_references = _common(others), _correlation(odds, others.mean(axis=0))
        gap = among_references - with_references
        if with_references < LITTLE * among_references and gap > BEYOND / np.sqrt(len(odds)):
            yield sentence.format(among_references, name, with_references)
            return
    yield from _doubts_of_one(target_odds, references.log_odds)
    yield from _doubts_of_source(member, references)
    if references.member.any():
        yield from _doubts_of_members(target_odds, member, references)


def _doubts_of_one(target_odds: Array, odds: Array) -> Iterator[str]:
    """Yield a sentence if the target agrees with most reference models, whose odds are ``(K, n)``, and not with one."""
    rows = np.arange(0, len(target_odds), max(1, len(target_odds) // RANKED))
    correlations = np.array([_correlation(target_odds[rows], of_reference[rows]) for of_reference in odds])
    most = float(np.quantile(correlations, MOST))
    strange = np.flatnonzero((correlations < LITTLE * most) & (most - correlations > BEYOND * np.sqrt(2 / len(rows))))
    if len(strange):
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        yield (
            f"The target agrees with reference models about which rows are hard (rank correlation {most:.2f}), and "
            f"not with reference {strange[0]} ({correlations[strange[0]]:.2f}){more}. Are its answers in "
            "the order of the target's rows?"
        )


def _doubts_of_source(member: Array, references: KnownReferences) -> Iterator[str]:
    """Yield a sentence if the target's members are easier or harder than its non-members for models that saw neither.

    First, each model's mean over the rows on which it was not trained is subtracted from its log odds. Then each row
    gets the mean of these numbers over the models that were not trained on it.
    """
    outside = ~references.member
    counts = outside.sum(axis=1, keepdims=True).clip(1)
    odds = references.log_odds - (references.log_odds * outside).sum(axis=1, keepdims=True) / counts
    seen = outside.sum(axis=0)
    mean = (odds * outside).sum(axis=0) / seen.clip(1)
    area = apart(mean[seen > 0], member[seen > 0])
    if area != 0.5:  # `apart` returns exactly 0.5 unless the area is significantly further from it than by chance
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
    """Yield a sentence if the target is surer of the rows on which it was trained and reference models are not, or if
    reference models are far surer of theirs than the target.

    The mean over the reference models is subtracted from the log odds of a row, so that no row is harder than others.
    """
    mean = references.log_odds.mean(axis=0)
    of_references = [_gap(odds - mean, mask) for odds, mask in zip(references.log_odds, references.member, strict=True)]
    gaps, errors = np.transpose(of_references)
    gap, error = _gap(target_odds - mean, member)
    mean_gap, mean_error = float(gaps.mean()), float(np.sqrt((errors**2).sum())) / len(gaps)
    if mean_gap < LITTLE * gap and gap - mean_gap > BEYOND * np.hypot(error, mean_error):
        yield (
            f"The target's log odds are larger by {gap:.2f} on rows it was trained on, those of reference models by "
            f"{mean_gap:.2f} on theirs. Does `member` say of each reference model which rows it was trained on, in the "
            "order of its answers?"
        )
    # A model like the references has a gap that deviates so far from their mean gap.
    deviation = float(gaps.std(ddof=1)) * np.sqrt(1 + 1 / len(gaps))
    if gap < LESS * mean_gap and mean_gap - gap > BEYOND * np.hypot(error, deviation):
        yield (
            f"The target's log odds are larger by {gap:.2f} on rows it was trained on, those of reference models by "
            f"{mean_gap:.2f} on theirs. Are some of the target's rows flagged wrongly? If not, train reference models "
            "as the target is."
        )


def _gap(odds: Array, member: Array) -> tuple[float, float]:
    """Return the difference of the means on members and on others, and its standard error."""
    inside, outside = odds[member], odds[~member]
    variance = float(inside.var()) / len(inside) + float(outside.var()) / len(outside)
    return float(inside.mean() - outside.mean()), float(np.sqrt(variance))
