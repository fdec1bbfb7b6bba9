"""One-sided Wilcoxon signed-rank tests over paired images, for many pairs of entries at once.

Zeros are dropped first. The rest follows ``scipy.stats.wilcoxon(d, alternative="greater", correction=False,
method="auto")``, but that all n <= 50 are exact: ties share their mean rank, and the distribution is that of all sign
patterns, counted over doubled ranks, where scipy takes the normal approximation with ties from n = 14 on. Beyond 50 it
is the normal approximation with tie correction. Here n is the number of differences without
zeros, as the approximation is too sure of few differences among many zeros. NaN is an error.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
EXACT_UP_TO = 50
_AT_ONCE = 1 << 16
"""How many differences are sorted at once: half a MiB, which stays in the processor's cache."""


def wilcoxon_greater(differences: npt.ArrayLike) -> Floats:
    """Return p-values ``(k,)`` for k samples ``(k, n)`` of paired differences: is a row's location above zero?

    A row without a non-zero difference is not testable: its p-value is NaN. Raises `NotTestable` for NaN or
    infinite differences, and for n = 0.
    """
    return wilcoxon_both(differences)[0]


def wilcoxon_both(differences: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return `wilcoxon_greater` of differences ``(k, n)`` and of their negatives; both share one sort."""
    values = np.asarray(differences)
    d: Singles = np.atleast_2d(values if values.dtype == np.float32 else values.astype(np.float64))
    if d.ndim != 2 or d.shape[1] == 0:
        raise NotTestable(f"expected differences (k, n) with n >= 1, got shape {d.shape}")
    if not np.isfinite(d).all():
        raise NotTestable("paired differences contain NaN or infinity; drop those pairs first")
    p = np.empty((2, len(d)))
    step = max(1, _AT_ONCE // d.shape[1])
    for start in range(0, len(d), step):
        p[:, start : start + step] = _chunk(d[start : start + step])
    return p[0], p[1]


def _chunk(d: Singles) -> Floats:
    """Return p-values ``(2, k)`` of the differences ``(k, n)`` and of their negatives."""
    magnitudes = np.abs(d)
    order = np.argsort(magnitudes, axis=1) + d.shape[1] * np.arange(len(d))[:, None]
    magnitudes.sort(axis=1)  # faster than to take them in the order
    positive = (d > 0).ravel()[order]
    new = np.ones(d.shape, dtype=bool)
    np.not_equal(magnitudes[:, 1:], magnitudes[:, :-1], out=new[:, 1:])
    zeros = d.shape[1] - np.count_nonzero(magnitudes, axis=1)
    count = (d.shape[1] - zeros).astype(np.float64)
    ranks = np.arange(1.0, d.shape[1] + 1)
    r_plus = positive @ ranks - zeros * np.count_nonzero(positive, axis=1)
    squares = count * (count + 1) * (2 * count + 1) / 6
    tied = np.flatnonzero(np.count_nonzero(~new, axis=1) > np.maximum(zeros - 1, 0))
    shared = _mean_ranks(new[tied], zeros[tied])
    r_plus[tied] = np.einsum("ij,ij->i", shared, positive[tied])
    squares[tied] = np.einsum("ij,ij->i", shared, shared)
    sums = np.stack([r_plus, count * (count + 1) / 2 - r_plus])
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.asarray(scipy.special.ndtr((count * (count + 1) / 4 - sums) / np.sqrt(squares / 4)))
    exact = count <= EXACT_UP_TO
    for row in np.flatnonzero(exact[tied]):
        p[:, tied[row]] = _permuted(shared[row][shared[row] > 0], sums[:, tied[row]])
    exact[tied] = False
    for remaining in np.unique(count[exact]):
        rows = exact & (count == remaining)
        p[:, rows] = _survival(int(remaining))[sums[:, rows].astype(np.int64)]
    p[:, count == 0] = np.nan
    return p


def _mean_ranks(new: Mask, zeros: npt.NDArray[np.int64]) -> Floats:
    """Return ranks ``(k, n)`` of sorted magnitudes of which the first are zeros: ties share their mean, zeros have 0.

    `new` ``(k, n)``: where a magnitude differs from the one before it.
    """
    n = new.shape[1]
    start = np.flatnonzero(new)
    size = np.diff(start, append=new.size)
    row, position = np.divmod(start, n)
    rank = position + (size + 1) / 2 - zeros[row]
    return np.repeat(np.where(position < zeros[row], 0.0, rank), size).reshape(new.shape)


@functools.cache
def _survival(n: int) -> Floats:
    """Return P(W >= w) for w = 0 .. n(n+1)/2 under the null hypothesis, by counting subsets of 1..n."""
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1
    for rank in range(1, n + 1):
        ways[rank:] += ways[:-rank].copy()
    return np.minimum(np.cumsum((ways / 2.0**n)[::-1])[::-1], 1.0)


def _permuted(ranks: Floats, sums: Floats) -> Floats:
    """Return P(W >= w) for each of the sums ``(2,)`` over all sign patterns of the given ranks, halves included."""
    doubled = np.rint(2 * ranks).astype(np.int64)
    return _reached(tuple(doubled.tolist()))[np.rint(2 * sums).astype(np.int64)]


@functools.lru_cache(maxsize=4096)
def _reached(doubled: tuple[int, ...]) -> Floats:
    """Return P(W >= w / 2) for w = 0, 1 .. the sum of ranks, given twice as large, by counting sign patterns."""
    ways = np.zeros(sum(doubled) + 1)
    ways[0] = 1
    for rank in doubled:
        ways[rank:] += ways[:-rank].copy()
    return np.asarray(np.cumsum(ways[::-1])[::-1] / 2.0 ** len(doubled))


def fewest_units(tests: int, alpha: float) -> int:
    """Return how many units a test needs to be significant at `alpha` after correction for `tests` tests.

    The smallest p-value of n units is 2**-n, where all differ in the same direction.
    """
    return int(np.floor(np.log2(tests / alpha))) + 1 if tests else 0


def adjust(p: npt.ArrayLike, method: Literal["bonferroni", "holm"] = "bonferroni") -> Floats:
    """Return p-values corrected for all comparisons given; NaN (not testable) stays NaN and is not counted.

    These are the numbers of `statsmodels.stats.multitest.multipletests` to the bit, without the second that its import
    takes in every command that ranks.
    """
    adjusted = np.array(p, dtype=np.float64)
    testable = ~np.isnan(adjusted)
    values = adjusted[testable]
    if method == "bonferroni":
        adjusted[testable] = np.minimum(values * len(values), 1)
    else:
        order = np.argsort(values)
        steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
        values[order] = np.minimum(steps, 1)
        adjusted[testable] = values
    return adjusted
