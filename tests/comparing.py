"""Two entries of a stored comparison head to head, as browsers compute it."""

from collections.abc import Sequence

import numpy as np

from imharness.ranking.comparisons import Floats, places
from imharness.results.comparisons import Comparison
from imharness.statistics.head_to_head import HeadToHead, head_to_head


def compare(
    comparison: Comparison,
    numbers: Floats,
    first: str,
    second: str,
    conditions: Sequence[int] | None = None,
) -> HeadToHead:
    """Return two entries of a stored comparison head to head, over all conditions or those at some positions."""
    starts, sign = comparison.starts(), 1 if comparison.better == "higher" else -1
    sets, _, clusters = places(comparison)
    a, b = (numbers[comparison.entries.index(label)].astype(np.float64) for label in (first, second))
    chosen = range(len(comparison.conditions)) if conditions is None else conditions
    advantages = [sign * (a[starts[i] : starts[i + 1]] - b[starts[i] : starts[i + 1]]) for i in chosen]
    units = [sets[comparison.conditions[i].units] for i in chosen]
    return head_to_head(advantages, units, tests=comparison.tests, alpha=comparison.alpha, clusters=clusters)
