"""One-sided Wilcoxon signed-rank tests over paired images, for many pairs of entries at once.

Differences of 0 are dropped first; n is the number of the others. (If n counted zeros, the approximation below would
give too small p-values for few differences among many zeros.) Equal differences share their mean rank. For n <= 50,
the distribution of the rank sum is exact, ties included: all sign patterns are counted. For larger n it is the normal
approximation with tie correction. The results are those of ``scipy.stats.wilcoxon(d, alternative="greater",
correction=False, method="auto")``, except that scipy approximates from n = 14 on if there are ties. NaN is an error.

Scores are stored with 32 bits, so two differences that are equal in truth, such as those of shares, may come out
unequal. So differences that only rounding may have parted count as tied, and a difference that may be 0 without
rounding counts as 0. `resolution` says how much rounding may do, and `_ranked` is the one place that looks for ties and
zeros. The site's page does the same.
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
"""By how much rounding to 32 and to 64 bits may part two equal differences, as a share of the largest score.

Rounding a score to 32 bits changes it by at most 2^-24 of the largest score, and by twice as much if the score was
computed with 32 bits before. So two differences of two scores each, which are rounded as well, can be parted by at most
12 * 2^-24 = 7.2e-7.
"""
_AT_ONCE = 1 << 16
"""How many differences are sorted at once: half a MiB, which stays in the processor's cache."""


def resolution(scores: npt.NDArray[np.floating]) -> Floats:
    """Return by how much two differences may be apart that count as equal, for each row of scores ``(k, n)``: ``(k,)``.

    `scores`: as they are stored; NaN and infinity do not count. For differences of two rows, the larger of their two
    numbers holds.
    """
    share = SINGLE if scores.dtype.itemsize <= 4 else DOUBLE
    largest = np.abs(scores).max(axis=1, initial=0.0, where=np.isfinite(scores))
    return np.asarray(share * largest, dtype=np.float64)


def wilcoxon_greater(differences: npt.ArrayLike, nearest: npt.ArrayLike = 0.0) -> Floats:
    """Return the p-value of each row of paired differences ``(k, n)``: is the row's location above zero? ``(k,)``.

    `nearest`: differences of a row that are no farther apart count as equal, and those no farther from 0 as 0; one
    number or ``(k,)``, see `resolution`. A row whose differences are all 0 is not testable: its p-value is NaN. Raises
    `NotTestable` for NaN or infinite differences, and for n = 0.
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
    """The ranks of k rows of differences, by their magnitudes.

    Attributes:
        nonzero: how many differences are not 0 ``(k,)``.
        sums: the rank sums of the differences above and of those below 0 ``(2, k)``.
        squares: the sums of the squared ranks ``(k,)``.
        tied: the positions of the t rows that have ties ``(t,)``.
        tied_ranks: the ranks of the differences in these rows, by ascending magnitude ``(t, n)``; 0 for zeros.
    """

    nonzero: Floats
    sums: Floats
    squares: Floats
    tied: npt.NDArray[np.int64]
    tied_ranks: Floats


def _ranked(d: Singles, nearest: Floats) -> _Ranked:
    """Rank differences ``(k, n)``. `nearest` ``(k,)``: how near two magnitudes are that count as equal."""
    n = d.shape[1]
    # 1. Sort each row by magnitude; `order` has positions in the flattened array. Zeros come first.
    magnitudes = np.abs(d)
    order = np.argsort(magnitudes, axis=1) + n * np.arange(len(d))[:, None]
    magnitudes.sort(axis=1)  # faster than to index by `order`
    zeros = np.count_nonzero(magnitudes <= nearest[:, None], axis=1)
    positive = (d > nearest[:, None]).ravel()[order]
    # 2. A group of ties begins where a magnitude differs from the one before it, and after the last zero.
    begins = np.ones(d.shape, dtype=bool)
    np.greater(np.diff(magnitudes, axis=1), nearest[:, None], out=begins[:, 1:])
    with_nonzero = np.flatnonzero(zeros < n)
    begins[with_nonzero, zeros[with_nonzero]] = True
    # 3. Rank sums as if there were no ties: the rank of a difference is its position less the number of zeros.
    nonzero = (n - zeros).astype(np.float64)
    positions = np.arange(1.0, n + 1)
    sum_above = positive @ positions - zeros * np.count_nonzero(positive, axis=1)
    squares = nonzero * (nonzero + 1) * (2 * nonzero + 1) / 6
    # 4. Rows with ties: more differences are equal to the one before them than zeros alone would make.
    tied = np.flatnonzero(np.count_nonzero(~begins, axis=1) > np.maximum(zeros - 1, 0))
    tied_ranks = _mean_ranks(begins[tied], zeros[tied])
    sum_above[tied] = np.einsum("ij,ij->i", tied_ranks, positive[tied])
    squares[tied] = np.einsum("ij,ij->i", tied_ranks, tied_ranks)
    sum_below = nonzero * (nonzero + 1) / 2 - sum_above
    return _Ranked(nonzero, np.stack([sum_above, sum_below]), squares, tied, tied_ranks)


def _p_values(ranked: _Ranked) -> Floats:
    """Return p-values ``(2, k)`` of the differences and of their negatives."""
    count, sums, squares, tied, tied_ranks = ranked
    # By the normal approximation for all rows; rows with few differences are overwritten by exact values below.
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.asarray(scipy.special.ndtr((count * (count + 1) / 4 - sums) / np.sqrt(squares / 4)))
    exact = count <= EXACT_UP_TO
    for i in np.flatnonzero(exact[tied]):
        p[:, tied[i]] = _permuted(tied_ranks[i][tied_ranks[i] > 0], sums[:, tied[i]])
    exact[tied] = False
    for n in np.unique(count[exact]):
        rows = exact & (count == n)
        p[:, rows] = _survival(int(n))[sums[:, rows].astype(np.int64)]
    p[:, count == 0] = np.nan
    return p


def _mean_ranks(begins: Mask, zeros: npt.NDArray[np.int64]) -> Floats:
    """Return the ranks of sorted magnitudes ``(k, n)``; ties share their mean rank, and zeros have the rank 0.

    `begins` ``(k, n)``: where a group of equal magnitudes begins. `zeros` ``(k,)``: how many of the first are 0.
    """
    n = begins.shape[1]
    start = np.flatnonzero(begins)
    size = np.diff(start, append=begins.size)
    row, position = np.divmod(start, n)
    rank = position + (size + 1) / 2 - zeros[row]
    return np.repeat(np.where(position < zeros[row], 0.0, rank), size).reshape(begins.shape)


@functools.cache
def _survival(n: int) -> Floats:
    """Return P(W >= w) for w = 0 .. n(n+1)/2 under the null hypothesis, by counting subsets of 1..n."""
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1
    for rank in range(1, n + 1):
        ways[rank:] += ways[:-rank].copy()
    return np.minimum(np.cumsum((ways / 2.0**n)[::-1])[::-1], 1.0)


def _permuted(ranks: Floats, sums: Floats) -> Floats:
    """Return P(W >= w) for each w of the sums ``(2,)``, over all sign patterns of ranks, which may be halves."""
    doubled = np.rint(2 * ranks).astype(np.int64)
    return _reached(tuple(doubled.tolist()))[np.rint(2 * sums).astype(np.int64)]


@functools.lru_cache(maxsize=4096)
def _reached(doubled: tuple[int, ...]) -> Floats:
    """Return P(2 W >= w) for w = 0, 1 .. the sum of the doubled ranks, by counting sign patterns."""
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
    """Return p-values corrected for the number of comparisons; NaN (not testable) stays NaN and is not counted.

    The numbers are bit for bit those of `statsmodels.stats.multitest.multipletests`, whose import takes a second.
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
