"""Means against zero, several of them at once: what is kept, what is lost once an attack knows it, what is broken.

Each mean is over independent units, with Student's t; the intervals of `count` of them hold at once with 95 %, by
Bonferroni: that needs no assumption on how they depend on each other, and any reader can repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from imharness.statistics.bootstrap import LEVEL
from imharness.statistics.clusters import coded
from imharness.statistics.differences import BATCHES, Floats, Told, moments


def tail_for(count: int) -> float:
    """Return the two-sided level of one interval at which `count` of them hold at once with 95 %."""
    return (1 - LEVEL) / max(count, 1)


def means(parts: Sequence[npt.ArrayLike], count: int) -> Told:
    """Return the mean of each part ``(k,)``, one number for each independent unit, with intervals: ``(parts,)``.

    `count`: how many intervals hold at once with 95 %. A part without numbers has NaN, above nothing and below nothing.
    """
    rows = [np.asarray(own, dtype=np.float64) for own in parts]
    known = [own[~np.isnan(own)] for own in rows]
    value, error = np.full((2, len(rows)), np.nan)
    for i, own in enumerate(known):
        if len(own):
            (value[i],), (error[i],), _ = moments(own[None])
    units = np.array([len(own) for own in known], dtype=np.int64)
    reach = max((float(np.abs(own).max()) for own in known if len(own)), default=0.0)
    return Told(value, error, units, tail_for(count), reach)


def jackknife(statistic: Callable[[npt.NDArray[np.bool_]], Floats], clusters: npt.ArrayLike) -> Floats:
    """Return what each cluster adds to a statistic other than a mean, such as a correlation: ``(*, k)``.

    These are pseudo-values (Tukey 1958; Efron and Stein, "The jackknife estimate of variance", Annals of Statistics
    1981) around the statistic of all units, which is their mean: their spread is that of the statistic. More clusters
    than `BATCHES` are left out in so many groups. `clusters`: the name of each unit's cluster ``(n,)``. `statistic`:
    takes a mask of units ``(n,)``, returns any shape.
    """
    codes, k = coded(np.asarray(clusters))
    if k > BATCHES:
        codes, k = codes % BATCHES, BATCHES
    without = np.stack([statistic(codes != own) for own in range(k)], axis=-1)
    whole = statistic(np.ones(len(codes), dtype=bool))
    return np.asarray(whole[..., None] + (k - 1) * (without.mean(axis=-1, keepdims=True) - without))
