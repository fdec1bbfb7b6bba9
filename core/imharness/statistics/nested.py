"""The mean of units that are nested in groups which share parts, such as splits that share a pool of rows.

Units of one group resemble each other, and groups are too few to be resampled. So the variance of the mean has two
parts, each estimated by the analysis of variance with one random factor: that of groups, and that of units within them
(Searle, Casella & McCulloch, "Variance Components", 1992, chapter 3). Degrees of freedom are by Satterthwaite ("An
approximate distribution of estimates of variance components", Biometrics Bulletin 1946). The interval is about new
groups, not about further units of these ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.special

from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import LEVEL, Interval
from imharness.statistics.clusters import coded

FEWEST_FREE = 2
"""With fewer degrees of freedom between groups there is no interval: two groups say too little about others."""


def nested_interval(
    values: npt.ArrayLike, groups: npt.ArrayLike, strata: npt.ArrayLike | None = None, *, level: float = LEVEL
) -> Interval:
    """Return the mean of ``(n,)`` with an interval by the variances of groups and of units within groups.

    `groups`: the name of each unit's group ``(n,)``. `strata`: the name of each unit's stratum ``(n,)``, such as its
    data set; strata are no sample, so their means may differ, and no group is in two of them. Where groups vary no more
    than their units do, the interval is Student's, of all units. There is none with fewer than `FEWEST_FREE` more
    groups than strata. In simulations of three groups with 5 or 6 units intervals of 95 % cover 97 % where groups do
    not matter, 95 % where they are 10 % of a unit's variance, and 93 % from 30 % on. Raises `NotTestable` for n = 0
    or NaN.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0 or not np.isfinite(x).all():
        raise NotTestable(f"a mean needs finite values, got {len(x)}")
    (group, k), n = coded(groups), len(x)
    stratum, s = coded(np.zeros(n) if strata is None else strata)
    mean, half = float(x.mean()), float("nan")
    if k - s >= FEWEST_FREE:
        sizes, stratum_sizes = np.bincount(group), np.bincount(stratum)
        stratum_of_group = stratum[np.unique(group, return_index=True)[1]]  # (k,)
        group_means, stratum_means = np.bincount(group, x) / sizes, np.bincount(stratum, x) / stratum_sizes
        between = float((sizes * (group_means - stratum_means[stratum_of_group]) ** 2).sum())
        within = float(((x - group_means[group]) ** 2).sum())
        error, free = _error(between, within, sizes, stratum_sizes[stratum_of_group], s)
        half = float(-scipy.special.stdtrit(free, (1 - level) / 2) * error)
    return Interval(mean, mean - half, mean + half, n)


def _error(
    between: float, within: float, sizes: npt.NDArray[np.int64], stratum_sizes: npt.NDArray[np.int64], s: int
) -> tuple[float, float]:
    """Return the standard error of the mean and its degrees of freedom, from the sums of squares.

    `sizes` and `stratum_sizes` are the numbers of units of each group and of its stratum ``(k,)``; s is the number of
    strata. With variances G of groups and U of units within them, the mean squares have the expectations m G + U and U,
    where m is a mean size of groups; the mean has the variance G sum(sizes^2) / n^2 + U / n.
    """
    k, n = len(sizes), int(sizes.sum())
    pooled = (between + within) / (n - s)
    among = between / (k - s)
    inside = within / (n - k) if n > k else 0.0
    if among <= inside or n == k:
        return float(np.sqrt(pooled / n)), n - s
    mean_size = (n - (sizes**2 / stratum_sizes).sum()) / (k - s)
    share = float((sizes**2).sum()) / n**2 / mean_size
    components = np.array([share * among, (1 / n - share) * inside])
    variance = float(components.sum())
    free = variance**2 / (components[0] ** 2 / (k - s) + components[1] ** 2 / (n - k))
    return float(np.sqrt(max(variance, 0.0))), float(np.clip(free, k - s, n - s))
