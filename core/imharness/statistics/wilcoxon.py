"""One-sided Wilcoxon signed-rank tests over paired images, for many pairs of entries at once.

Zeros are dropped first. The rest follows ``scipy.stats.wilcoxon(d, alternative="greater", correction=False,
method="auto")``, but that all n <= 50 are exact: ties share their mean rank, and the distribution is that of all sign
patterns, counted over doubled ranks, where scipy takes the normal approximation with ties from n = 14 on. Beyond 50 it
is the normal approximation with tie correction. Here n is the number of differences without
zeros, as the approximation is too sure of few differences among many zeros. NaN is an error.

Scores are stored with 32 bits, so differences that are equal in truth, such as those of shares, come out unequal. What
rounding may have parted is a tie, and what it may have moved from 0 is 0: `resolution` says how much that is, and
`_ranked` is the one place where ties and zeros are looked for. The site's page does the same.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
EXACT_UP_TO = 50
SINGLE, DOUBLE = 1e-6, 1e-14
"""What rounding to 32 and to 64 bits may part differences by, as a share of the largest score.

A score is off by 2^-24 of the largest one when it is rounded, and by twice as much when it was before; so two
differences of two scores each, rounded as well, are off by at most 12 * 2^-24 = 7.2e-7 from each other.
"""
_AT_ONCE = 1 << 16
"""How many differences are sorted at once: half a MiB, which stays in the processor's cache."""


def resolution(scores: npt.NDArray[np.floating]) -> Floats:
    """Return for rows of scores ``(k, n)`` as stored how near two differences of them are that may be equal ``(k,)``.

    Differences of two rows need the larger one of both. NaN and infinite scores do not count.
    """
    share = SINGLE if scores.dtype.itemsize <= 4 else DOUBLE
    largest = np.abs(scores).max(axis=1, initial=0.0, where=np.isfinite(scores))
    return np.asarray(share * largest, dtype=np.float64)


def wilcoxon_greater(differences: npt.ArrayLike, nearest: npt.ArrayLike = 0.0) -> Floats:
    """Return p-values ``(k,)`` for k samples ``(k, n)`` of paired differences: is a row's location above zero?

    `nearest`: how near two differences of a row are that may be equal, one number or ``(k,)``; see `resolution`. A row
    without a non-zero difference is not testable: its p-value is NaN. Raises `NotTestable` for NaN or infinite
    differences, and for n = 0.
    """
    return wilcoxon_both(differences, nearest)[0]


def wilcoxon_both(differences: npt.ArrayLike, nearest: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
    """Return `wilcoxon_greater` of differences ``(k, n)`` and of their negatives; both share one sort."""
    values = np.asarray(differences)
    d: Singles = np.atleast_2d(values if values.dtype == np.float32 else values.astype(np.float64))
    if d.ndim != 2 or d.shape[1] == 0:
        raise NotTestable(f"expected differences (k, n) with n >= 1, got shape {d.shape}")
    if not np.isfinite(d).all():
        raise NotTestable("paired differences contain NaN or infinity; drop those pairs first")
    near = np.broadcast_to(np.asarray(nearest, dtype=np.float64), len(d))
    p = np.empty((2, len(d)))
    step = max(1, _AT_ONCE // d.shape[1])
    for start in range(0, len(d), step):
        p[:, start : start + step] = _p_values(_ranked(d[start : start + step], near[start : start + step]))
    return p[0], p[1]


def rank_biserial(differences: Floats, nearest: npt.ArrayLike = 0.0) -> Floats:
    """Return the matched-pairs rank-biserial correlation of each row of ``(k, n)``; 0 where nothing differs."""
    up, down = _ranked(differences, np.broadcast_to(np.asarray(nearest, dtype=np.float64), len(differences))).sums
    return np.asarray(np.divide(up - down, up + down, out=np.zeros_like(up), where=up + down > 0))


class _Ranked(NamedTuple):
    """Rows of differences: how many are not 0 ``(k,)``, the rank sums of those above and of those below 0 ``(2, k)``,
    the sum of squared ranks ``(k,)``, which rows have ties ``(t,)``, and their ranks ``(t, n)``, 0 for zeros."""

    nonzero: Floats
    sums: Floats
    squares: Floats
    tied: npt.NDArray[np.int64]
    shared: Floats


def _ranked(d: Singles, nearest: Floats) -> _Ranked:
    magnitudes = np.abs(d)
    order = np.argsort(magnitudes, axis=1) + d.shape[1] * np.arange(len(d))[:, None]
    magnitudes.sort(axis=1)  # faster than to take them in the order
    zeros = np.count_nonzero(magnitudes <= nearest[:, None], axis=1)
    positive = (d > nearest[:, None]).ravel()[order]
    new = np.ones(d.shape, dtype=bool)
    np.greater(np.diff(magnitudes, axis=1), nearest[:, None], out=new[:, 1:])
    some = np.flatnonzero(zeros < d.shape[1])
    new[some, zeros[some]] = True
    count = (d.shape[1] - zeros).astype(np.float64)
    ranks = np.arange(1.0, d.shape[1] + 1)
    r_plus = positive @ ranks - zeros * np.count_nonzero(positive, axis=1)
    squares = count * (count + 1) * (2 * count + 1) / 6
    tied = np.flatnonzero(np.count_nonzero(~new, axis=1) > np.maximum(zeros - 1, 0))
    shared = _mean_ranks(new[tied], zeros[tied])
    r_plus[tied] = np.einsum("ij,ij->i", shared, positive[tied])
    squares[tied] = np.einsum("ij,ij->i", shared, shared)
    return _Ranked(count, np.stack([r_plus, count * (count + 1) / 2 - r_plus]), squares, tied, shared)


def _p_values(ranked: _Ranked) -> Floats:
    """Return p-values ``(2, k)`` of the differences and of their negatives."""
    count, sums, squares, tied, shared = ranked
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
