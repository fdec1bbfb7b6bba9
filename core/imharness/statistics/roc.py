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


def tpr_at_fpr(scores: npt.ArrayLike, member: npt.ArrayLike, fpr: float) -> float:
    """Return the highest true-positive rate at a threshold whose false-positive rate is at most `fpr`."""
    s, m = _checked(scores, member)
    non_members = np.sort(s[~m])
    allowed = int(np.floor(fpr * len(non_members) + 1e-9))
    if allowed >= len(non_members):
        return 1.0
    threshold = non_members[len(non_members) - allowed - 1]
    return float(np.mean(s[m] > threshold))


def balanced_accuracy(scores: npt.ArrayLike, member: npt.ArrayLike) -> float:
    """Return the mean of true-positive and true-negative rate if a score >= 0 means "member"."""
    s, m = _checked(scores, member)
    return float((np.mean(s[m] >= 0) + np.mean(s[~m] < 0)) / 2)
