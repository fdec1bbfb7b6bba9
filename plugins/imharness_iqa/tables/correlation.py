"""Correlation of scores with opinion scores: conditions and defenses beside each other, each over its own images."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from imharness.stats import interval
from imharness.tracks import Value, value_of

FEWEST = 3
"""Images that a correlation needs."""


@dataclass(frozen=True)
class Judged:
    """Scores of one data set ``(lines, units)``, higher is better, NaN where there is none; and facts of the units."""

    scores: np.ndarray
    labels: np.ndarray
    photographs: np.ndarray

    def correlation(self, method: str, resampled: bool) -> tuple[int, Value] | None:
        """Return the number of lines that have a correlation, and the mean of these; None without any."""
        every = np.arange(len(self.labels))[None]
        each = self._each(every, method)[:, 0]
        defined = ~np.isnan(each)
        if not defined.any():
            return None
        seen = np.isfinite(self.scores[defined]).any(axis=0)
        own, n = Judged(self.scores[defined][:, seen], self.labels[seen], self.photographs[seen]), int(seen.sum())
        if not resampled:
            return int(defined.sum()), Value(value=float(each[defined].mean()), n=n)
        found = interval(lambda p: _mean_of_defined(own._each(p, method)), n, own.photographs)
        return int(defined.sum()), value_of(found)

    def counts(self) -> np.ndarray:
        """Return the number of images of each line that has a correlation."""
        defined = ~np.isnan(self._each(np.arange(len(self.labels))[None], "spearman")[:, 0])
        return np.isfinite(self.scores[defined]).sum(axis=1)

    def _each(self, positions: np.ndarray, method: str) -> np.ndarray:
        """Return the correlation of each line with the labels ``(lines, r)``, over units at positions ``(r, m)``."""
        known, found = np.isfinite(self.scores), np.full((len(self.scores), len(positions)), np.nan)
        masks, group = np.unique(known, axis=0, return_inverse=True)
        for i, mask in enumerate(masks):
            here = mask[positions]
            labels = _centred(self.labels[positions], here, method)
            for line in np.flatnonzero(group.ravel() == i):
                scores = _centred(self.scores[line][positions], here, method)
                norm = np.sqrt((scores**2).sum(axis=1) * (labels**2).sum(axis=1))
                defined = (norm > 0) & (here.sum(axis=1) >= FEWEST)
                np.divide((scores * labels).sum(axis=1), norm, out=found[line], where=defined)
        return found


def _centred(rows: np.ndarray, known: np.ndarray, method: str) -> np.ndarray:
    """Return numbers ``(r, m)``, or their ranks, minus their mean over what is known; 0 elsewhere."""
    if method == "spearman":
        rows = scipy.stats.rankdata(np.where(known, rows, np.inf), axis=1)
    low = rows.min(axis=1, keepdims=True, where=known, initial=np.inf)
    high = rows.max(axis=1, keepdims=True, where=known, initial=-np.inf)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    centred = rows - rows.sum(axis=1, keepdims=True, where=known) / count
    return np.where(known & (low < high), centred, 0.0)  # of equal numbers only rounding would be left


def _mean_of_defined(each: np.ndarray) -> np.ndarray:
    """Return the mean over lines ``(r,)`` of ``(lines, r)``, NaN left out."""
    defined = ~np.isnan(each)
    with np.errstate(invalid="ignore"):
        return np.where(defined, each, 0).sum(axis=0) / defined.sum(axis=0)


def joined(parts: Sequence[tuple[int, Value]]) -> Value:
    """Return the mean of the data sets' correlations, each with the number of its conditions as weight."""
    weights = np.array([count for count, _ in parts]) / sum(count for count, _ in parts)
    values = [v for _, v in parts]
    found = Value(value=float(np.dot(weights, [v.value for v in values])), n=sum(v.n or 0 for v in values))
    if values[0].clusters is None:
        return found
    ends = {}
    if all(v.low is not None for v in values):
        below, above = (
            float(np.linalg.norm(weights * [abs(v.value - getattr(v, side)) for v in values]))
            for side in ("low", "high")
        )
        ends = {"low": found.value - below, "high": found.value + above}
    return found.model_copy(update={"clusters": sum(v.clusters or 0 for v in values), **ends})
