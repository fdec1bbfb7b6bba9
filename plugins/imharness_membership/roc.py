"""ROC curves of membership scores, thinned for logarithmic axes."""

import numpy as np

Array = np.ndarray


def roc(scores: Array, member: Array, points: int = 400) -> tuple[Array, Array]:
    """Return false- and true-positive rates of the thresholds at the distinct scores, after (0, 0).

    Of more than `points` such pairs, at most `points` are returned, whose false-positive rates are dense near 0.

    Args:
        scores: ``(n,)``, higher for members.
        member: bool ``(n,)``.
        points: the largest number of pairs.
    """
    order = np.argsort(-scores, kind="stable")
    last = np.r_[scores[order][1:] != scores[order][:-1], True]
    tpr = np.r_[0.0, np.cumsum(member[order])[last] / member.sum()]
    fpr = np.r_[0.0, np.cumsum(~member[order])[last] / (~member).sum()]
    if len(fpr) <= points:
        return fpr, tpr
    wanted = np.r_[0.0, np.geomspace(0.5 / (~member).sum(), 1, points - 3), 1.0]
    indices = np.unique(np.r_[0, np.searchsorted(fpr, wanted, side="right") - 1])
    return fpr[indices], tpr[indices]
