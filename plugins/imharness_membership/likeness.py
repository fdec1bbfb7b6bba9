"""Compares the models that the adversary trained with the target: accuracy, calibration and number of members.

If these models were trained in another way than the target, their outputs differ, and attacks that learn from them find
out less than they could.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import scipy
import torch

from imharness_membership.audit_inputs import Array, Outputs
from imharness_membership.audit_references import KnownReferences
from imharness_membership.calibration import calibration_error
from imharness_membership.findings import Likeness

LEVEL = 0.99
"""The confidence level of intervals that decide whether a difference is due to chance."""
ACCURACY, CALIBRATION, ODDS, SIZE = 0.03, 0.05, 0.5, 0.1
"""The largest differences that attacks tolerate: of accuracies, of calibration errors, of mean log odds, and of the
number of members (as a share)."""
GROSS = 0.2
"""The difference of accuracies above which members and non-members of the target may be mixed up. If they are, the
target is right less often on members than other models, or more often on non-members."""
ALIKE = 0.75
"""The largest share of rows whose membership may be the same in a reference model as in the target. If members are
drawn independently, it is about one half."""
SHADOW, REFERENCES = "shadow model", "reference models"


def of_shadow(target: Outputs, shadow: Outputs) -> Iterator[Likeness]:
    """Yield the comparisons with a shadow model on the shadow model's own rows.

    Accuracies differ if the difference exceeds both `ACCURACY` and its 99% interval.
    """
    for what, side in (("accuracy on members", True), ("accuracy on non-members", False)):
        subsets = [model.at(model.member == side) for model in (target, shadow)]
        shares = [float(_right(subset).mean()) for subset in subsets]
        variance = sum(share * (1 - share) / len(subset.labels) for share, subset in zip(shares, subsets, strict=True))
        by_chance = scipy.stats.norm.ppf((1 + LEVEL) / 2) * np.sqrt(variance)
        yield Likeness(SHADOW, what, *shares, bool(abs(shares[0] - shares[1]) > max(ACCURACY, by_chance)))
    errors = [_calibration(model) for model in (target, shadow)]
    tolerance = CALIBRATION + sum(1 / np.sqrt((~model.member).sum()) for model in (target, shadow))
    yield Likeness(SHADOW, "calibration error on non-members", *errors, bool(abs(errors[0] - errors[1]) > tolerance))
    sizes = [float(model.member.sum()) for model in (target, shadow)]
    yield Likeness(SHADOW, "number of members", *sizes, abs(sizes[1] - sizes[0]) > SIZE * sizes[0])


def unlike(likenesses: Sequence[Likeness]) -> list[str]:
    """Return a sentence for each difference in accuracy that is so large that members and others may be mixed up.

    The target then is right too seldom on members or too often on non-members, by more than `GROSS` on one side, or by
    more than `GROSS` on both sides together.
    """
    differing: dict[str, Likeness] = {}  # "members" or "non-members" -> the comparison of accuracies there
    suspicious: dict[str, float] = {}  # how much too low on members, or too high on non-members, the target's is
    for likeness in likenesses:
        if likeness.differs and likeness.what == "accuracy on members":
            differing["members"], suspicious["members"] = likeness, likeness.other - likeness.target
        if likeness.differs and likeness.what == "accuracy on non-members":
            differing["non-members"], suspicious["non-members"] = likeness, likeness.target - likeness.other
    amounts = list(suspicious.values())
    on_both = len(amounts) == 2 and min(amounts) > 0 and sum(amounts) > GROSS
    sides = [side for side, amount in suspicious.items() if amount > GROSS or on_both]
    return [
        f"The target is right on {differing[side].target:.1%} of its {side}, the {differing[side].of} on "
        f"{differing[side].other:.1%}. Are some of these rows {'non-members' if side == 'members' else 'members'} of "
        f"the target? If not, train the {differing[side].of} as the target is."
        for side in sides
    ]


def of_masks(target: Outputs, references: KnownReferences) -> Iterator[Likeness]:
    """Yield the comparisons of which rows are members of reference models and which of the target.

    There are none if the reference models were trained on none of the rows. A reference model with nearly the same
    members as the target was not trained on rows drawn independently, and gives attacks the answer.
    """
    if references.outside:
        return
    sizes = references.member.sum(axis=1).astype(float)
    members = float(target.member.sum())
    far = abs(sizes.mean() - members) > SIZE * members
    yield Likeness(REFERENCES, "number of members among the rows", members, float(sizes.mean()), bool(far))
    agree = float((references.member == target.member).mean(axis=1).max())
    yield Likeness(REFERENCES, "largest share of rows whose membership is the target's", 1.0, agree, agree > ALIKE)


def of_references(target: Outputs, odds: Array, references: KnownReferences) -> Iterator[Likeness]:
    """Yield the comparisons of answers of reference models and of the target to the same rows.

    The target differs if it lies outside the 99% prediction interval for one more reference model, and by more than
    attacks tolerate.

    Args:
        odds: log odds ``(n,)`` of the target.
    """
    member = references.member
    for what, side in (("members", True), ("non-members", False)):
        if side and references.outside:
            continue
        own_rows, rows = target.member == side, member if side else ~member
        yield _compared_means(f"mean log odds on {what}", ODDS, odds, own_rows, references.log_odds, rows)
        if references.outputs is not None:
            right = references.outputs.argmax(axis=2) == target.labels
            yield _compared_means(f"accuracy on {what}", ACCURACY, _right(target), own_rows, right, rows)
    if references.outputs is not None:
        others = [
            _calibration(Outputs(outputs, target.labels, mask))
            for outputs, mask in zip(references.outputs, member, strict=True)
        ]
        tolerance = CALIBRATION + 1 / np.sqrt((~target.member).sum())
        yield _compared("calibration error on non-members", tolerance, _calibration(target), np.array(others))


def _compared_means(
    what: str, tolerance: float, target: Array, own_rows: Array, others: Array, rows: Array
) -> Likeness:
    """Compare the mean of the target's values over some rows with the mean of each reference model over its rows.

    Args:
        target, own_rows: values ``(n,)`` of the target, and a mask ``(n,)`` of the rows that count.
        others, rows: the same of the references, ``(K, n)``.
    """
    return _compared(what, tolerance, float(_mean(target[None], own_rows[None])[0]), _mean(others, rows))


def _compared(what: str, tolerance: float, target: float, others: Array) -> Likeness:
    """Compare a number of the target with those of the references, by the prediction interval for one more model."""
    count = len(others)
    by_chance = scipy.stats.t.ppf((1 + LEVEL) / 2, count - 1) * others.std(ddof=1) * np.sqrt(1 + 1 / count)
    mean = float(others.mean())
    return Likeness(REFERENCES, what, target, mean, bool(abs(target - mean) > max(tolerance, float(by_chance))))


def _mean(values: Array, rows: Array) -> Array:
    """Return the mean of values ``(K, n)`` over the rows of a mask ``(K, n)``, for each model: ``(K,)``."""
    return np.asarray((values * rows).sum(axis=1) / np.maximum(rows.sum(axis=1), 1), dtype=np.float64)


def _right(subset: Outputs) -> Array:
    """Return for each row whether the model predicts its label, bool ``(n,)``."""
    return np.asarray(subset.outputs.argmax(axis=1) == subset.labels)


def _calibration(subset: Outputs) -> float:
    """Return the calibration error on non-members."""
    others = subset.at(~subset.member)
    return calibration_error(torch.from_numpy(others.outputs), torch.from_numpy(others.labels))
