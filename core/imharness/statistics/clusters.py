"""Units that come from one source, such as images made of one photograph, are drawn and tested as a whole.

Images of one photograph, rows of one split or choices about one reference resemble each other. A test or an interval
that takes them for independent is too sure of itself. So whole clusters are resampled, and a test sees each cluster
once, with the mean over its units. Fewer than `FEWEST` clusters show nothing: no one-sided signed-rank test reaches
p = 0.05 with them, and there is no interval.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.statistics.wilcoxon import wilcoxon_both

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
FEWEST = 5


def coded(clusters: npt.ArrayLike) -> tuple[Codes, int]:
    """Return the number of each unit's cluster ``(n,)``, counted in the order of first appearance, and how many."""
    names = np.asarray(clusters)
    if names.dtype.kind in "OU":
        seen: dict[object, int] = {}
        return np.array([seen.setdefault(name, len(seen)) for name in names.tolist()], dtype=np.int64), len(seen)
    _, first, codes = np.unique(names, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[codes].astype(np.int64), len(first)


class Layout(NamedTuple):
    """Units sorted by their clusters ``(n,)``, where each cluster starts and how many units it has ``(k,)``."""

    order: Codes
    starts: Codes
    sizes: Codes

    @property
    def alone(self) -> bool:
        """Whether every unit is a cluster of its own; clusters are then in the order of the units."""
        return len(self.starts) == len(self.order)


def layout(clusters: npt.ArrayLike) -> Layout:
    """Return where the units of each cluster are. `clusters`: the name of each unit's cluster ``(n,)``."""
    codes, _ = coded(clusters)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return Layout(order, starts, np.diff(starts, append=len(codes)))


def cluster_means(rows: Floats, clusters: npt.ArrayLike | Layout) -> Floats:
    """Return the mean of each cluster ``(k, clusters)`` for rows ``(k, n)`` without NaN."""
    arrangement = clusters if isinstance(clusters, Layout) else layout(clusters)
    if arrangement.alone:
        return rows
    return np.asarray(
        np.add.reduceat(rows[:, arrangement.order], arrangement.starts, axis=1, dtype=np.float64) / arrangement.sizes
    )


def clusters_greater(
    differences: npt.ArrayLike, clusters: npt.ArrayLike | None = None, nearest: npt.ArrayLike = 0.0
) -> Floats:
    """Return `wilcoxon_greater` of the clusters' mean differences: p-values ``(k,)`` for ``(k, n)`` paired differences.

    `clusters`: the name of each unit's cluster ``(n,)``; without them each unit is tested. `nearest`: as in
    `wilcoxon_greater`.

    NaN where no cluster differs from zero, and, with `clusters`, for fewer than `FEWEST` of them; units without
    clusters are tested however few they are. Raises `NotTestable` as `wilcoxon_greater` does.
    """
    return clusters_both(differences, clusters, nearest)[0]


def clusters_both(
    differences: npt.ArrayLike, clusters: npt.ArrayLike | Layout | None = None, nearest: npt.ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """Return `clusters_greater` of differences ``(k, n)``, and that of minus the differences."""
    if clusters is None:
        return wilcoxon_both(differences, nearest)
    means = cluster_means(np.atleast_2d(np.asarray(differences)), clusters)
    if means.shape[1] < FEWEST:
        undefined = np.full(len(means), np.nan)
        return undefined, undefined
    return wilcoxon_both(means, nearest)


def gaps_greater(rows: Floats, clusters: npt.ArrayLike | None = None, nearest: npt.ArrayLike = 0.0) -> Floats:
    """Return the p-values ``(k,)`` of `clusters_greater` for rows ``(k, n)`` with NaN where a row has no number.

    `nearest`: as in `wilcoxon_greater`, one number or ``(k,)``. The test of a row is over the units that it has; NaN
    for a row without any. Rows with the same gaps share one pass.
    """
    p_values, finite = np.full(len(rows), np.nan), ~np.isnan(rows)
    near = np.broadcast_to(np.asarray(nearest, dtype=np.float64), len(rows))
    masks, kind = kinds(finite)
    for m in np.flatnonzero(masks.any(axis=1)):
        cluster_names = None if clusters is None else np.asarray(clusters)[masks[m]]
        p_values[kind == m] = clusters_greater(rows[np.ix_(kind == m, masks[m])], cluster_names, near[kind == m])
    return p_values


def kinds(masks: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], Codes]:
    """Return the distinct rows of ``(k, n)``, sorted, and for each row the index of its equal among them, ``(k,)``.

    It equals ``numpy.unique(masks, axis=0, return_inverse=True)``, which is slower.
    """
    rows = [row.tobytes() for row in masks]
    first_position = dict[bytes, int]()
    for position, row in enumerate(rows):
        first_position.setdefault(row, position)
    index = {row: i for i, row in enumerate(sorted(first_position))}
    distinct = np.array([first_position[row] for row in index], dtype=np.int64)
    return masks[distinct], np.array([index[row] for row in rows], dtype=np.int64)


def chosen_half(names: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which units are in the half on which variants are chosen; results are reported on the other half.

    `names`: ``(n,)`` names of units, or of their clusters, which are never divided. The names are sorted by their
    sha256 and the first half of them, rounded down, is the one to choose on. So both halves have the same number of
    names, or the reported one has one more, and neither the order of the units nor their numbers matter.
    """
    texts = [str(name) for name in np.asarray(names)]
    order = sorted(set(texts), key=lambda name: hashlib.sha256(name.encode()).digest())
    chosen = set(order[: len(order) // 2])
    return np.array([name in chosen for name in texts], dtype=bool)
