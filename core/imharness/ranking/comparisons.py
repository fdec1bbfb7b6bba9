"""What a table shows of a comparison: the entries that are not shown to be worse than the best, and means of units."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from imharness.results.comparisons import Comparison
from imharness.results.pairwise import Places, pairwise_intervals, places
from imharness.results.rankings import Ranking

Floats = npt.NDArray[np.floating]


def not_worse(comparison: Comparison, numbers: Floats, best: str, ranking: Ranking | None = None) -> tuple[str, ...]:
    """Return the other entries that the best one is not shown to be better than; who shares no unit with it is one.

    What a ranking by this comparison says of a pair counts; intervals of all pairs decide about the others.
    """
    intervals, i = pairwise_intervals(comparison, numbers), comparison.entries.index(best)
    by_pairs = {label: best if intervals.better[i, j] else "" for j, label in enumerate(comparison.entries) if j != i}
    if ranking and ranking.comparison == comparison.id:
        by_pairs |= {label: verdict for label in by_pairs if (verdict := ranking.stated(best, label)) is not None}
    return tuple(label for label, better in by_pairs.items() if better != best)


def unit_means(
    comparison: Comparison, numbers: npt.NDArray[np.floating], where: Places | None = None
) -> npt.NDArray[np.float64]:
    """Return ``(k, units)`` of ``(k, total)``: each unit's mean over the conditions that have a number, or NaN."""
    starts, (sets, names, _) = comparison.starts(), where or places(comparison)
    total, count = np.zeros((2, len(numbers), len(names)))
    for (start, end), condition in zip(itertools.pairwise(starts), comparison.conditions, strict=True):
        block, at = numbers[:, start:end].astype(np.float64), sets[condition.units]
        present = ~np.isnan(block)
        total[:, at] += np.where(present, block, 0)
        count[:, at] += present
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
