"""Two entries of a stored comparison head to head, as browsers compute it."""

from collections.abc import Sequence

import numpy as np

from imharness.documents.comparisons import Comparison
from imharness.documents.pairwise import groups_of, limit_of, places, unit_gains, weights_of
from imharness.ranking.comparisons import Floats
from imharness.statistics.head_to_head import HeadToHead, head_to_head
from imharness.statistics.wilcoxon import resolution


def compare(
    comparison: Comparison,
    numbers: Floats,
    first: str,
    second: str,
    conditions: Sequence[int] | None = None,
) -> HeadToHead:
    """Return two entries of a stored comparison head to head, over all conditions or those at some positions."""
    # `where` has the positions of the units of each condition, the names of all units and the cluster of each unit.
    starts, where = comparison.starts(), places(comparison)
    chosen = list(range(len(comparison.conditions)) if conditions is None else conditions)
    rows = [comparison.entries.index(label) for label in (first, second)]
    chosen_numbers = np.concatenate([numbers[rows, starts[i] : starts[i + 1]] for i in chosen], axis=1)
    chosen_comparison = comparison.model_copy(update={"conditions": tuple(comparison.conditions[i] for i in chosen)})
    n, compared = len(where[1]), len(comparison.entries) - len(comparison.incomplete)
    groups = [
        group._replace(gains=group.gains[:1] - group.gains[1:])
        for group in groups_of(chosen_comparison, chosen_numbers, where)
    ]
    assert comparison.pairwise_alpha is not None
    return head_to_head(
        unit_gains(groups, n)[0],
        where[2],
        weights_of(comparison, where),
        alpha=comparison.pairwise_alpha,
        value_range=comparison.value_range,
        limit=limit_of(comparison),
        tests=compared * (compared - 1),
        nearest=float(resolution(chosen_numbers).max()),
    )
