"""Correlation of scores with opinion scores: many conditions and defenses at once, each over its own images."""

from collections.abc import Sequence

import numpy as np

from imharness.leaderboard import Value, kinds, pearson_rows, spearman_rows

FEWEST = 3
"""The number of images that a correlation needs."""
ROWS = {"spearman": spearman_rows, "pearson": pearson_rows}


def correlations(scores: np.ndarray, labels: np.ndarray, method: str) -> np.ndarray:
    """Return the correlation ``(k,)`` of each row of scores ``(k, n)`` with labels ``(n,)``, over its finite numbers.

    NaN where a row has fewer than `FEWEST` of them, or equal ones alone. `method`: spearman or pearson.
    """
    coefficients = np.full(len(scores), np.nan)
    masks, group = kinds(np.isfinite(scores))
    for i, mask in enumerate(masks):
        if mask.sum() >= FEWEST:
            rows = group == i
            coefficients[rows] = ROWS[method](scores[rows][:, mask], labels[mask])
    return coefficients


def joined(by_dataset: Sequence[tuple[int, Value]]) -> Value:
    """Return the mean of the correlations of data sets, weighted by how many correlations are behind each.

    `by_dataset`: that number and the correlation of each data set. The interval is that of a mean of independent
    numbers.
    """
    weights = np.array([count for count, _ in by_dataset]) / sum(count for count, _ in by_dataset)
    values = [v for _, v in by_dataset]
    result = Value(value=float(np.dot(weights, [v.value for v in values])), n=sum(v.n or 0 for v in values))
    if values[0].clusters is None:
        return result
    ends = {}
    if all(v.low is not None for v in values):
        below, above = (
            float(np.linalg.norm(weights * [abs(v.value - getattr(v, side)) for v in values]))
            for side in ("low", "high")
        )
        ends = {"low": result.value - below, "high": result.value + above}
    return result.model_copy(update={"clusters": sum(v.clusters or 0 for v in values), **ends})
