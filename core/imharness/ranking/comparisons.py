"""What a table shows of a comparison: the entries that are not shown to be worse than the best, and means of units.

A comparison holds the numbers of all entries on the same units, see `imharness.documents.comparisons`.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from imharness.documents.comparisons import Comparison
from imharness.documents.pairwise import Places, pairwise_intervals, places
from imharness.documents.rankings import Ranking

Floats = npt.NDArray[np.floating]


def not_worse(comparison: Comparison, numbers: Floats, best: str, ranking: Ranking | None = None) -> tuple[str, ...]:
    """Return the other entries that the best one is not shown to be better than.

    An entry that shares no unit with the best one is among them. Where a ranking by this comparison states which of the
    two is better, that statement counts; for all others the simultaneous intervals of all pairs decide.

    Args:
        comparison: the comparison behind a column.
        numbers: its numbers, ``(entries, total)``.
        best: the label of the best entry.
        ranking: the ranking of the table, if it is one.
    """
    intervals, i = pairwise_intervals(comparison, numbers), comparison.entries.index(best)
    remaining = []
    for j, label in enumerate(comparison.entries):
        if j == i:
            continue
        shown_better = bool(intervals.better[i, j])
        if ranking and ranking.comparison == comparison.id:
            stated_better = ranking.stated(best, label)
            shown_better = shown_better if stated_better is None else stated_better == best
        if not shown_better:
            remaining.append(label)
    return tuple(remaining)


def unit_means(
    comparison: Comparison, numbers: npt.NDArray[np.floating], where: Places | None = None
) -> npt.NDArray[np.float64]:
    """Return each unit's mean over the conditions in which it has a number, or NaN: ``(k, units)``.

    `numbers` ``(k, total)``: rows in which the numbers of all conditions follow each other. `where`: what `places`
    returns for the comparison, if that is known already.
    """
    layout = where or places(comparison)
    total, count = np.zeros((2, len(numbers), len(layout.names)))
    for (start, end), condition in zip(itertools.pairwise(comparison.starts()), comparison.conditions, strict=True):
        block, at = numbers[:, start:end].astype(np.float64), layout.sets[condition.units]
        present = ~np.isnan(block)
        total[:, at] += np.where(present, block, 0)
        count[:, at] += present
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
