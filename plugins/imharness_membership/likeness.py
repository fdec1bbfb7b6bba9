"""How models that the adversary trained compare with the target: in accuracy, calibration and number of members.

An adversary's copy that is trained otherwise than the target shows other outputs, and attacks that learn from it show
less than they could.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy
import torch

from imharness_membership.audit_inputs import Array, Outputs
from imharness_membership.audit_references import KnownReferences
from imharness_membership.calibration import calibration_error
from imharness_membership.findings import Likeness

LEVEL = 0.99
ACCURACY, CALIBRATION, ODDS, SIZE = 0.03, 0.05, 0.5, 0.1
"""Differences up to these are borne: of accuracies, calibration errors, mean log odds, and sizes (as a share)."""
GROSS = 0.2
"""Where members and others are mixed up, the target is right less often on members, or more often on others."""
ALIKE = 0.75
"""Members drawn independently agree with the target's on about half of the rows, and hardly on more than this share."""
SHADOW, REFERENCES = "shadow model", "reference models"


def of_shadow(target: Outputs, shadow: Outputs) -> Iterator[Likeness]:
    """Yield the comparisons of a shadow model on rows of its own; differences are larger than 99% intervals allow."""
    for what, side in (("accuracy on members", True), ("accuracy on non-members", False)):
        subsets = [model.at(model.member == side) for model in (target, shadow)]
        shares = [float(_right(subset).mean()) for subset in subsets]
        spread = sum(share * (1 - share) / len(subset.labels) for share, subset in zip(shares, subsets, strict=True))
        far = scipy.stats.norm.ppf((1 + LEVEL) / 2) * np.sqrt(spread)
        yield Likeness(SHADOW, what, *shares, bool(abs(shares[0] - shares[1]) > max(ACCURACY, far)))
    errors, counts = zip(*((_calibration(model), (~model.member).sum()) for model in (target, shadow)), strict=True)
    room = CALIBRATION + sum(1 / np.sqrt(count) for count in counts)
    yield Likeness(SHADOW, "calibration error on non-members", *errors, bool(abs(errors[0] - errors[1]) > room))
    sizes = [float(model.member.sum()) for model in (target, shadow)]
    yield Likeness(SHADOW, "number of members", *sizes, abs(sizes[1] - sizes[0]) > SIZE * sizes[0])


def unlike(likenesses: Sequence[Likeness]) -> list[str]:
    """Return in sentences which differences in accuracy are so large that members and others may be mixed up.

    These are of one side, or of the gap between both.
    """
    sides = {
        side: (likeness, sign * (likeness.target - likeness.other))
        for likeness in likenesses
        for side, sign in (("members", -1), ("non-members", 1))
        if likeness.differs and likeness.what == f"accuracy on {side}"
    }
    far = {side: likeness for side, (likeness, less) in sides.items() if less > GROSS}
    if (
        len(sides) == 2
        and min(less for _, less in sides.values()) > 0 < sum(less for _, less in sides.values()) - GROSS
    ):
        far = {side: likeness for side, (likeness, _) in sides.items()}
    return [
        f"The target is right on {likeness.target:.1%} of its {side}, the {likeness.of} on {likeness.other:.1%}. "
        f"Are some of these rows {'non-members' if side == 'members' else 'members'} of the target? If not, train the "
        f"{likeness.of} as the target is."
        for side, likeness in far.items()
    ]


def of_masks(target: Outputs, references: KnownReferences) -> Iterator[Likeness]:
    """Yield the comparisons of the rows on which reference models and the target were trained, if they were on any.

    A reference model whose members are nearly those of the target was not trained on rows drawn independently,
    and tells attacks what they should find out.
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
    """Yield the comparisons of answers of reference models on the same rows.

    Args:
        odds: log odds ``(n,)`` of the target.

    The target differs where it lies outside the interval that would cover a further reference model with 99%.
    """
    member = references.member
    for what, side in (("members", True), ("non-members", False)):
        if side and references.outside:
            continue
        of = member if side else ~member
        yield _compared(f"mean log odds on {what}", ODDS, odds, target.member == side, references.log_odds, of, _mean)
        if references.outputs is not None:
            right = references.outputs.argmax(axis=2) == target.labels
            yield _compared(f"accuracy on {what}", ACCURACY, _right(target), target.member == side, right, of, _mean)
    if references.outputs is not None:
        others = [
            _calibration(Outputs(outputs, target.labels, mask))
            for outputs, mask in zip(references.outputs, member, strict=True)
        ]
        room = CALIBRATION + 1 / np.sqrt((~target.member).sum())
        yield _judged("calibration error on non-members", room, _calibration(target), np.array(others))


def _compared(
    what: str,
    room: float,
    target: Array,
    own_rows: Array,
    others: Array,
    rows: Array,
    of: Callable[[Array, Array], Array],
) -> Likeness:
    """Compare a mean of the target over some of its rows with those of each reference model over rows of its own."""
    return _judged(what, room, float(of(target[None], own_rows[None])[0]), of(others, rows))


def _judged(what: str, room: float, target: float, others: Array) -> Likeness:
    """Compare with the interval for a further model."""
    count = len(others)
    reach = scipy.stats.t.ppf((1 + LEVEL) / 2, count - 1) * others.std(ddof=1) * np.sqrt(1 + 1 / count)
    mean = float(others.mean())
    return Likeness(REFERENCES, what, target, mean, bool(abs(target - mean) > max(room, float(reach))))


def _mean(values: Array, rows: Array) -> Array:
    """Return the mean over the chosen rows of each model, ``(K,)``."""
    return np.asarray((values * rows).sum(axis=1) / np.maximum(rows.sum(axis=1), 1), dtype=np.float64)


def _right(subset: Outputs) -> Array:
    return np.asarray(subset.outputs.argmax(axis=1) == subset.labels)


def _calibration(subset: Outputs) -> float:
    others = subset.at(~subset.member)
    return calibration_error(torch.from_numpy(others.outputs), torch.from_numpy(others.labels))
