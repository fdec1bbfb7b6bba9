"""Receiver operating characteristics of membership scores."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable


def _checked(scores: npt.ArrayLike, member: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    s, m = np.asarray(scores, dtype=np.float64), np.asarray(member, dtype=bool)
    if s.shape != m.shape or s.ndim != 1 or np.isnan(s).any():
        raise NotTestable(f"expected scores and membership (n,) without NaN, got {s.shape}, {m.shape}")
    if m.all() or not m.any():
        raise NotTestable("needs members and non-members")
    return s, m


def auc(scores: npt.ArrayLike, member: npt.ArrayLike) -> float:
    """Return the area under the ROC curve; ties count half."""
    s, m = _checked(scores, member)
    ranks = scipy.stats.rankdata(s)
    n_in, n_out = m.sum(), (~m).sum()
    return float((ranks[m].sum() - n_in * (n_in + 1) / 2) / (n_in * n_out))


def accusable(non_members: int, fpr: float) -> int:
    """Return how many of n `non_members` may lie above a threshold whose false-positive rate is at most `fpr`.

    The rate is that of a further non-member. So the number is the largest a with ``(a + 1) / (n + 1) <= fpr``, as in
    conformal prediction (Vovk, Gammerman & Shafer, "Algorithmic Learning in a Random World", 2005). With ``n fpr`` of
    them above the threshold, the rate would be higher, such as 1.3 % for 1 % with 150 rows, because the threshold is
    chosen on the rows on which the rate is counted. Negative if there are too few non-members for any threshold.
    """
    return int(np.floor(fpr * (non_members + 1) + 1e-9)) - 1


def tpr_at_fpr(scores: npt.ArrayLike, member: npt.ArrayLike, fpr: float) -> float:
    """Return the true-positive rate at the lowest threshold that accuses a further non-member with at most `fpr`.

    See `accusable`; raises `NotTestable` with fewer than ``1 / fpr - 1`` non-members.
    """
    s, m = _checked(scores, member)
    non_members = np.sort(s[~m])
    allowed = accusable(len(non_members), fpr)
    if allowed < 0:
        raise NotTestable(f"needs at least {fewest_non_members(fpr):,} non-members, got {len(non_members):,}")
    if allowed >= len(non_members):
        return 1.0
    threshold = non_members[len(non_members) - allowed - 1]
    return float(np.mean(s[m] > threshold))


def fewest_non_members(fpr: float) -> int:
    """Return how many non-members it takes for a threshold with a false-positive rate of `fpr`, in expectation."""
    return int(np.ceil(1 / fpr - 1e-9)) - 1


def balanced_accuracy(scores: npt.ArrayLike, member: npt.ArrayLike) -> float:
    """Return the mean of true-positive and true-negative rate if a score >= 0 means "member"."""
    s, m = _checked(scores, member)
    return float((np.mean(s[m] >= 0) + np.mean(s[~m] < 0)) / 2)
