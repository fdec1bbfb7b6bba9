"""The worst case of each entry, from the scores behind a ranking: over all settings, or over some of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from imharness.results.comparisons import Comparison
from imharness.results.rankings import Ranking
from imharness.results.told import places

Floats = npt.NDArray[np.float64]


def worst_case(
    comparison: Comparison, vectors: npt.NDArray[np.floating], ranking: Ranking, conditions: Sequence[int]
) -> Floats:
    """Return the mean over units of each entry's score under the worst attack, ``(entries,)``, NaN where it has none.

    For each unit, the worst score over the facets ``ranking.over`` is taken, then the mean over the other facets.
    `vectors`: ``(entries, total)``. `conditions`: positions of the settings that count.
    """
    sets, names, _ = places(comparison)
    starts = comparison.starts()
    sign = 1 if comparison.better == "higher" else -1
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for c in conditions:
        facets = comparison.conditions[c].facets.items()
        groups.setdefault(tuple((k, v) for k, v in facets if k not in ranking.over), []).append(c)
    total, count = np.zeros((2, len(comparison.entries), len(names)))
    for own in groups.values():
        worst = np.full(total.shape, np.nan)
        for c in own:
            block = sign * vectors[:, starts[c] : starts[c + 1]].astype(np.float64)
            at = sets[comparison.conditions[c].units]
            worst[:, at] = np.fmin(worst[:, at], np.where(np.isfinite(block), block, np.nan))
        known = ~np.isnan(worst)
        total += np.where(known, worst, 0.0)
        count += known
    with np.errstate(invalid="ignore"):
        by_unit = total / count
    return np.asarray(sign * _mean(by_unit))


def setting_means(comparison: Comparison, vectors: npt.NDArray[np.floating]) -> Floats:
    """Return the mean over units in each setting, ``(entries, conditions)``, NaN where an entry has none."""
    starts = comparison.starts()
    found = [_mean(vectors[:, a:b].astype(np.float64)) for a, b in pairwise(starts)]
    return np.stack(found, axis=1) if found else np.zeros((len(comparison.entries), 0))


def _mean(rows: Floats) -> Floats:
    known = np.isfinite(rows)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, rows, 0.0).sum(axis=1) / known.sum(axis=1))
