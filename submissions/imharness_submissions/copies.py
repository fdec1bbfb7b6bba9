"""Entries that are near copies of others: their numbers are equal within noise, and to rank both says one thing twice.

A copy cannot be separated from the leader, whose rank it could take, and each further entry makes the intervals of
all pairs longer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from imharness.documents.leaderboards import Leaderboard
from imharness.results.labels import id_of

NEAR = 0.01
"""The root mean square of the differences of a copy, as a share of how much the numbers vary."""
FEWEST, VALUES = 20, 10
"""Of fewer numbers, or of fewer different values, such as right and wrong choices, equal ones may be chance."""


def near_copies(
    leaderboard: Leaderboard, numbers: Mapping[str, npt.NDArray[np.floating]], ids: Collection[str]
) -> Iterator[str]:
    """Yield a line for each entry with a component of `ids` whose numbers are those of an entry without one.

    `numbers`: by comparison, as `Store.numbers` returns them. Controls are nobody's original.
    """
    for ranking in leaderboard.rankings:
        comparison = next(each for each in leaderboard.comparisons if each.id == ranking.comparison)
        rows = dict(zip(comparison.entries, np.asarray(numbers[comparison.id], dtype=np.float64), strict=True))
        entered = [label for label in rows if any(id_of(component) in ids for component in label.split(" + "))]
        others = [label for label in rows if label not in entered]
        for label in entered:
            for other in others:
                position = ranking.places.get(other)
                distance = _distance(rows[label], rows[other])
                if position is not None and not position.control and distance <= NEAR:
                    yield (
                        f"{label}: a near copy of {other}, from which its numbers differ by {100 * distance:.2g} % of "
                        "their spread"
                    )


def _distance(row: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    """Return the root mean square difference of two rows as a share of the other's spread; infinite if unknown."""
    finite = np.isfinite(other)
    if finite.sum() < FEWEST or len(np.unique(other[finite])) < VALUES or not np.array_equal(finite, np.isfinite(row)):
        return float("inf")
    spread = float(other[finite].std())
    return float(np.sqrt(((row - other)[finite] ** 2).mean())) / spread if spread else float("inf")
