"""Who beats whom: win-rate matrices from paired tests, and Bradley-Terry scores from votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from imharness.statistics import NotTestable
from imharness.statistics.clusters import Layout, clusters_both, layout
from imharness.statistics.wilcoxon import adjust, resolution

Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.int64]
"""The places of two entries ``(pairs, 2)``."""
ALPHA = 0.05
MATRIX = 200
"""A table with a value for each pair is made for at most so many entries."""
AT_ONCE = 1 << 16
"""How many differences are computed and tested at once: half a MiB, which stays in the processor's cache."""


@dataclass(frozen=True)
class WinRates:
    """`rate[i, j]`: percentage of testable conditions in which entry i beats entry j; NaN when none is testable.

    `tested[i, j]` counts them; `comparisons` is the number of tests the correction was made for.
    """

    rate: Floats
    tested: npt.NDArray[np.int64]
    comparisons: int


def win_rates(
    scores: Sequence[npt.ArrayLike],
    *,
    higher_wins: bool,
    clusters: Sequence[npt.ArrayLike] = (),
    alpha: float = ALPHA,
    correction: Literal["bonferroni", "holm"] = "holm",
) -> WinRates:
    """Return how often each entry significantly beats each other one, over the conditions.

    `scores`: one array ``(entries, images)`` per condition; the row of an entry without results in it is NaN. Each
    comparison is a one-sided Wilcoxon signed-rank test over the images that both have, corrected over all comparisons
    of the table that could be tested. `clusters`: for each condition the name of each image's cluster ``(images,)``; a
    test then sees each cluster once (`clusters_greater`). Without them images are independent. Differences that only
    the rounding of `scores`, as they are stored, parts are ties (`imharness.statistics.wilcoxon.resolution`).
    """
    entries = len(np.asarray(scores[0])) if len(scores) else 0
    p = np.full((entries, entries, len(scores)), np.nan)
    pairs = np.stack(np.triu_indices(entries, 1), axis=1)
    layouts = dict[tuple[int, bytes], Layout]()
    for c, block in enumerate(scores):
        values = np.asarray(block)
        near = resolution(values)
        for mask, group in _by_mask(~np.isnan(values), pairs):
            arrangement = _layout(clusters[c], mask, layouts) if len(clusters) else None
            single = arrangement is not None and arrangement.alone and values.dtype == np.float32
            shared = values[:, mask].astype(np.float32 if single else np.float64)
            step = max(1, AT_ONCE // shared.shape[1])
            for start in range(0, len(group), step):
                first, second = group[start : start + step].T
                difference = shared[first]
                difference -= shared[second]
                up, down = clusters_both(difference, arrangement, np.maximum(near[first], near[second]))
                p[first, second, c], p[second, first, c] = (up, down) if higher_wins else (down, up)
    corrected = adjust(p, correction)
    tested_count = np.sum(~np.isnan(p), axis=2)
    with np.errstate(invalid="ignore"):
        rate = 100 * np.sum(corrected < alpha, axis=2) / np.where(tested_count, tested_count, np.nan)
    return WinRates(rate, tested_count, int(np.sum(~np.isnan(p))))


def _layout(names: npt.ArrayLike, mask: npt.NDArray[np.bool_], cache: dict[tuple[int, bytes], Layout]) -> Layout:
    """Return the layout of some units; conditions that share the same object of names share the layout."""
    key = id(names), mask.tobytes()
    if key not in cache:
        cache[key] = layout(np.asarray(names)[mask])
    return cache[key]


def _by_mask(shared: npt.NDArray[np.bool_], pairs: Pairs) -> list[tuple[npt.NDArray[np.bool_], Pairs]]:
    """Group pairs of entries by the images that they share; pairs that share none are left out."""
    if shared.all():
        return [(shared[0], pairs)] if shared.size and len(pairs) else []
    groups: dict[bytes, tuple[npt.NDArray[np.bool_], list[int]]] = {}
    for index, (i, j) in enumerate(pairs):
        mask = shared[i] & shared[j]
        if mask.any():
            groups.setdefault(mask.tobytes(), (mask, []))[1].append(index)
    return [(mask, pairs[indices]) for mask, indices in groups.values()]


def bradley_terry(wins: npt.ArrayLike, tolerance: float = 1e-12, steps: int = 100_000) -> Floats:
    """Return log-strengths ``(k,)`` with mean 0 from ``wins[i, j]``, how often i was preferred to j.

    Maximum likelihood by Hunter's MM iteration (Annals of Statistics 32, 2004). Raises `NotTestable` when an entry, or
    a group of entries, never won or never lost against the rest: no finite maximum exists.
    """
    w = np.asarray(wins, dtype=np.float64)
    if w.ndim != 2 or w.shape[0] != w.shape[1] or (w < 0).any() or not np.isfinite(w).all():
        raise NotTestable(f"expected a square matrix of counts, got shape {w.shape}")
    w = w * (1 - np.eye(len(w)))
    reach = np.linalg.matrix_power((w > 0) + np.eye(len(w)), max(len(w) - 1, 1)) > 0
    if not reach.all():
        raise NotTestable("some entries never won, or never lost, against the rest: strengths are not finite")
    games, total = w + w.T, w.sum(axis=1)
    strength = np.ones(len(w))
    for _ in range(steps):
        updated = total / (games / (strength[:, None] + strength)).sum(axis=1)
        updated /= np.exp(np.mean(np.log(updated)))
        if np.max(np.abs(np.log(updated / strength))) < tolerance:
            return np.asarray(np.log(updated))
        strength = updated
    raise NotTestable(f"Bradley-Terry did not converge in {steps} steps")
