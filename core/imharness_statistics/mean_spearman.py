"""The mean of many rank correlations with one set of labels, resampled by counts instead of by sorting again.

A resample draws unit i so many times, c_i. With m draws in all, units sorted once and midranks, the sum of
c (R - (m + 1) / 2)**2 is (m**3 - sum of t**3) / 12, where t counts the draws of each group of equal numbers (Kendall,
"Rank Correlation Methods", chapter 3); and the rank of a group is what was drawn before it, plus (t + 1) / 2. All sums
are of multiples of a quarter, so they are exact, and so each correlation is the one of the resampled units themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness_statistics import NotTestable
from imharness_statistics.bootstrap import LEVEL, RESAMPLES, Interval, drawn, percentiles
from imharness_statistics.clusters import Codes, coded
from imharness_statistics.correlation import NEEDED

Floats = npt.NDArray[np.float64]
_AT_ONCE = 2**17
"""Units times resamples that are looked at together: arrays that a processor's cache holds."""


class _Sorted(NamedTuple):
    """Positions in ascending order of their numbers, and where each group of equal numbers begins among them."""

    order: Codes
    starts: Codes

    def sums(self, rows: Floats, out: Floats) -> Floats:
        """Return the sums over each group ``(groups, r)`` of rows ``(n, r)``; `out` is overwritten."""
        np.take(rows, self.order, axis=0, out=out, mode="clip")
        return out if len(self.starts) == len(self.order) else np.add.reduceat(out, self.starts, axis=0)


class _Alike(NamedTuple):
    """Lines that have the same units: these, their labels sorted, and the lines sorted."""

    units: npt.NDArray[np.int64]
    labels: _Sorted
    lines: list[_Sorted]


def mean_spearman(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Return the mean over lines ``(k, n)`` of Spearman's rho with labels ``(n,)``, with a percentile interval.

    Each line is correlated over the units that it has a finite number for; a line with fewer than three of them, or
    whose numbers or labels are all the same, is left out, in a resample, too. `clusters`: the name of each unit's
    cluster ``(n,)``, drawn as a whole. Raises `NotTestable` where no line has a correlation.
    """
    x, y = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    alike = _grouped(x, y)
    value = _mean(alike, np.ones((len(y), 1)))[0]
    if np.isnan(value):
        raise NotTestable("no line has a correlation with the labels")
    codes, k = coded(np.arange(len(y)) if clusters is None else clusters)
    size, width = None if clusters is None else k, max(_AT_ONCE // len(y), 16)
    estimates = [
        _mean(alike, np.ascontiguousarray(counts[start : start + width].T[codes]))
        for counts in drawn(k, resamples, seed)
        for start in range(0, len(counts), width)
    ]
    found = np.concatenate(estimates)
    found = found[np.isfinite(found)]
    low, high = percentiles(found, size, level) if len(found) else (np.nan, np.nan)
    return Interval(float(value), float(low), float(high), len(y), size)


def _grouped(scores: Floats, labels: Floats) -> list[_Alike]:
    masks, group = np.unique(np.isfinite(scores), axis=0, return_inverse=True)
    found = []
    for i, mask in enumerate(masks):
        lines = [_sorted(line[mask]) for line in scores[group.ravel() == i]]
        found.append(_Alike(np.flatnonzero(mask), _sorted(labels[mask]), lines))
    return [own for own in found if len(own.units)]


def _sorted(numbers: Floats) -> _Sorted:
    order = np.argsort(numbers, kind="stable")
    risen = numbers[order]
    return _Sorted(order, np.flatnonzero(np.concatenate([[True], risen[1:] != risen[:-1]])))


def _mean(alike: list[_Alike], counts: Floats) -> Floats:
    """Return the mean of all defined correlations ``(r,)`` with unit i drawn ``counts[i]`` times ``(n, r)``."""
    total, defined = np.zeros(counts.shape[1]), np.zeros(counts.shape[1])
    for own in alike:
        for rho in _correlations(own, counts[own.units]):
            known = ~np.isnan(rho)
            total[known] += rho[known]
            defined += known
    return np.divide(total, defined, out=np.full_like(total, np.nan), where=defined > 0)


def _correlations(own: _Alike, counts: Floats) -> Iterator[Floats]:
    """Yield the correlation of each line in each resample ``(r,)``, NaN where it is not defined."""
    m, buffers = counts.sum(axis=0), [np.empty_like(counts) for _ in range(4)]
    t = own.labels.sums(counts, buffers[0])
    sizes = np.diff(own.labels.starts, append=len(own.units))
    ranks = np.empty_like(counts)
    ranks[own.labels.order] = np.repeat(np.cumsum(t, axis=0) - t / 2 - m / 2, sizes, axis=0)
    spread = m**3 - np.einsum("ir,ir,ir->r", t, t, t)
    weighted = counts * ranks
    whole = np.einsum("ir,ir->r", weighted, counts), np.einsum("ir,ir,ir->r", counts, counts, counts)
    for line in own.lines:
        t, w = line.sums(counts, buffers[0]), line.sums(weighted, buffers[1])
        tied = len(t) < len(counts)
        halves, cubes = (np.einsum("ir,ir->r", w, t), np.einsum("ir,ir,ir->r", t, t, t)) if tied else whole
        norm = np.sqrt(np.maximum(m**3 - cubes, 0) * np.maximum(spread, 0))
        kept = (norm > 0) & (m >= NEEDED["spearman"])
        shared = halves / 2 + _before(t, w, buffers[2], buffers[3])
        yield np.divide(12 * shared, norm, out=np.full_like(m, np.nan), where=kept)


def _before(t: Floats, w: Floats, *spare: Floats) -> Floats:
    """Return the sum over i of ``w[i]`` times the sum of all ``t`` before it ``(r,)``; all arrays are overwritten.

    Neighbours are paired and then joined, again and again: of each pair the second meets the first.
    """
    found, others = np.zeros(t.shape[1]), spare
    while len(t) > 1:
        half = len(t) // 2
        found += np.einsum("ir,ir->r", w[1 : 2 * half : 2], t[: 2 * half : 2])
        joined = tuple(other[: len(t) - half] for other in others)
        for part, out in zip((t, w), joined, strict=True):
            np.add(part[: 2 * half : 2], part[1 : 2 * half : 2], out=out[:half])
            out[half:] = part[2 * half :]
        others, (t, w) = (t, w), joined
    return found
