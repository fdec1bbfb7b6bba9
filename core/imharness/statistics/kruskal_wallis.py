"""The Kruskal-Wallis test over repeated samples, which asks whether a sample represents the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable


@dataclass(frozen=True)
class KruskalWallis:
    """H statistic with tie correction, its p-value, and the number of groups."""

    statistic: float
    p_value: float
    groups: int


def kruskal_wallis(samples: Sequence[npt.ArrayLike]) -> KruskalWallis:
    """Test whether samples share one location, as ``scipy.stats.kruskal`` does.

    Raises `NotTestable` for fewer than two groups, an empty group, NaN, or equal values only.
    """
    groups = [np.asarray(sample, dtype=np.float64) for sample in samples]
    if len(groups) < 2 or any(len(group) == 0 for group in groups):
        raise NotTestable("needs at least two groups with values")
    joined = np.concatenate(groups)
    if np.isnan(joined).any() or np.ptp(joined) == 0:
        raise NotTestable("values are NaN or all equal")
    result = scipy.stats.kruskal(*groups)
    return KruskalWallis(float(result.statistic), float(result.pvalue), len(groups))
