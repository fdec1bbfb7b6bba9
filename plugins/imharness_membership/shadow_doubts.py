"""Why members and others of the target differ from those of a shadow model as no training makes them differ.

A shadow model that is trained as the target is shows what one should see: flags that are mixed up bring both sides
nearer to each other, and another temperature of the softmax on one side alone changes the scale of its answers there.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy

from imharness_membership.audit_inputs import Array, Outputs

FEW, CLASSES = 20, 4
"""So many rows of a side, and so many classes, are compared at least."""
SCALE, SCALE_BEYOND = 0.25, 5.0
"""Scales of answers on members and others differ by more than what a training does if the logarithm of their ratio is
further from the shadow's than this, and than so many of its standard errors."""
NEARER, BEYOND, EACH = 0.05, 4.0, 1.0
"""Sides are nearer to each other than the shadow's if the area under the ROC curve is smaller by more than this, and
than so many standard errors, and if each side has moved by more than one of its own."""
TINY = 1e-35
"""Smaller probabilities are those of an underflow, and do not count."""


def doubts_of_scales(target: Outputs, shadow: Outputs) -> Iterator[str]:
    """Yield a sentence if answers of the target were scaled on one side alone, as by another temperature.

    The scale of an answer is the standard deviation of log probabilities over the classes that are neither the true nor
    the predicted one. A temperature divides it; training changes it on members and others alike.
    """
    if target.outputs.shape[1] < CLASSES:
        return
    difference = variance = 0.0
    for inside in (True, False):
        for model, sign in ((target, 1), (shadow, -1)):
            logs = _scales(model.at(model.member == inside))
            if len(logs) < FEW:
                return
            difference += sign * (1 if inside else -1) * float(logs.mean())
            variance += float(logs.var()) / len(logs)
    if abs(difference) > max(SCALE, SCALE_BEYOND * np.sqrt(variance)):
        yield (
            f"Beside the shadow model, log probabilities of the target are spread {np.exp(abs(difference)):.2f} times "
            f"as far on {'members' if difference > 0 else 'non-members'} as on {'non-' * (difference > 0)}members, "
            "which tells the sides apart whatever the model knows. Has the softmax another temperature on one side?"
        )


def _scales(model: Outputs) -> npt.NDArray[np.float64]:
    """Return the logarithm of the scale of each answer that has one, see `doubts_of_scales`."""
    outputs, rows = model.outputs.astype(np.float64), np.arange(len(model.labels))
    others = outputs > TINY
    others[rows, model.labels] = others[rows, outputs.argmax(axis=1)] = False
    whole = others.sum(axis=1) >= outputs.shape[1] - 2
    logs = np.log(outputs[whole], where=others[whole], out=np.zeros_like(outputs[whole]))
    spread = np.asarray(logs.std(axis=1, where=others[whole]) if whole.any() else np.zeros(0))
    return np.asarray(np.log(spread[spread > 0]), dtype=np.float64)


def doubts_of_flags(
    target_odds: Array, target_member: Array, shadow_odds: Array, shadow_member: Array
) -> Iterator[str]:
    """Yield a sentence if members and others of the target lie nearer to each other than those of the shadow model.

    Args:
        target_odds, shadow_odds: log odds of the true class, ``(n,)`` and ``(m,)``.
        target_member, shadow_member: bool, of the same lengths.
    """
    ours = target_odds[target_member], target_odds[~target_member]
    theirs = shadow_odds[shadow_member], shadow_odds[~shadow_member]
    if min(map(len, (*ours, *theirs))) < FEW:
        return
    (area, error), (other, other_error) = _area(*ours), _area(*theirs)
    if other - area <= max(NEARER, BEYOND * np.hypot(error, other_error)):
        return
    if all((moved - 0.5) > EACH * spread for moved, spread in (_area(theirs[0], ours[0]), _area(ours[1], theirs[1]))):
        yield (
            f"The target is less sure of its members than the shadow model is, and surer of its non-members: log odds "
            f"tell the sides apart with an area under the ROC curve of {area:.3f}, those of the shadow model with "
            f"{other:.3f}. Are some of these rows flagged wrongly? If not, train the shadow model as the target is."
        )


def _area(high: Array, low: Array) -> tuple[float, float]:
    """Return the share of pairs in which the first is larger, and its standard error where both are alike."""
    n, m = len(high), len(low)
    area = float(scipy.stats.mannwhitneyu(high, low).statistic) / (n * m)
    return area, float(np.sqrt((n + m + 1) / (12 * n * m)))
