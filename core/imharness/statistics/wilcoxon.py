"""One-sided Wilcoxon signed-rank tests over paired images, for many pairs of entries at once.

Zeros are dropped first. The rest follows ``scipy.stats.wilcoxon(d, alternative="greater", correction=False,
method="auto")``: ties share their mean rank; exact distribution for n <= 50 without ties, that of all sign patterns for
n <= 25 with them, the normal approximation with tie correction otherwise. Here n is the number of differences without
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
Keys = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]
EXACT_UP_TO = 50
PERMUTED_UP_TO = 25
_AT_ONCE = 1 << 16
"""How many differences are sorted at once: half a MiB, which stays in the processor's cache."""
_EXACT = 2**24
"""Whole numbers up to this are exact as 32-bit floats."""
_FEW = 1 / 16
"""With a smaller share of tied differences in a row, only these are corrected."""


def wilcoxon_greater(differences: npt.ArrayLike) -> Floats:
    """Return p-values ``(k,)`` for k samples ``(k, n)`` of paired differences: is a row's location above zero?

    A row without a non-zero difference is not testable: its p-value is NaN. Raises `NotTestable` for NaN or
    infinite differences, and for n = 0.
    """
    return wilcoxon_both(differences)[0]


def wilcoxon_both(differences: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return `wilcoxon_greater` of differences ``(k, n)`` and of their negatives; both share one sort."""
    given = np.asarray(differences)
    d: Singles = np.atleast_2d(given if given.dtype == np.float32 else given.astype(np.float64))
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
    """Return p-values ``(2, k)`` of the differences ``(k, n)`` and of their negatives.

    If no two of a row are equal as 32-bit floats, these have the order of the 64-bit floats and are sorted faster.
    """
    with np.errstate(over="ignore"):
        single = d.astype(np.float32, copy=False)
    if d.dtype == np.float32 or (single == d).all():
        return _tested(*_sorted_magnitudes(single))
    if _coarse(
        d[:1], *_sorted_magnitudes(single[:1])[2:]
    ).any():  # then most rows have ties, as scores with few grades do
        return _tested(*_sorted_magnitudes(d))
    found = _sorted_magnitudes(single)
    p, coarse = _tested(*found), _coarse(d, *found[2:])
    if coarse.any():
        p[:, coarse] = _tested(*_sorted_magnitudes(d[coarse]))
    return p


def _coarse(d: Singles, zeros: npt.NDArray[np.int64], equal: Mask) -> Mask:
    """Return which rows ``(k,)`` have differences that are equal, or 0, as 32-bit floats."""
    return np.asarray((_tied(zeros, equal) > 0) | (zeros != np.count_nonzero(d == 0, axis=1)))


def _tied(zeros: npt.NDArray[np.int64], equal: Mask) -> npt.NDArray[np.int64]:
    """Return how many magnitudes of a row that are not 0 equal the next one ``(k,)``."""
    return np.asarray(np.count_nonzero(equal, axis=1) - np.maximum(zeros - 1, 0))


def _tested(positive: Singles, ordered: Keys, zeros: npt.NDArray[np.int64], equal: Mask) -> Floats:
    """Return p-values ``(2, k)`` of differences and of their negatives, from what `_sorted_magnitudes` returns."""
    n = positive.shape[1]
    count = (n - zeros).astype(np.float64)
    r_plus, tied = _rank_sum(positive, zeros), _tied(zeros, equal)
    ties, few = tied > 0, tied < _FEW * n
    moved, tie_term = _with_few_ties(positive, equal, zeros, few)
    r_plus += moved
    many = ties & ~few
    if many.any():
        r_plus[many], tie_term[many] = _with_ties(positive[many] > 0, ordered[many], zeros[many])
    sums = np.stack([r_plus, count * (count + 1) / 2 - r_plus])
    p = _asymptotic(sums, count, tie_term)
    exact = ~ties & (count <= EXACT_UP_TO)
    for left in np.unique(count[exact]):
        own = exact & (count == left)
        p[:, own] = _survival(int(left))[sums[:, own].astype(np.int64)]
    permuted = np.flatnonzero(ties & (count <= PERMUTED_UP_TO))
    if len(permuted):
        for row, ranks in zip(permuted, _mean_ranks(ordered[permuted], zeros[permuted]), strict=True):
            p[:, row] = _permuted(ranks[ranks > 0], sums[:, row])
    p[:, count == 0] = np.nan
    return p


def _sorted_magnitudes(d: Singles) -> tuple[Singles, Keys, npt.NDArray[np.int64], Mask]:
    """Sort each row by |d|. The bits of a non-negative float order like an integer and leave the top bit free.

    Returns 1 where a value is positive and 0 elsewhere ``(k, n)``, the bits of |d| ``(k, n)``, the number of zeros
    ``(k,)``, and where a value equals the next one ``(k, n - 1)``.
    """
    single = d.dtype == np.float32
    keys: Keys = d.view(np.uint32) << np.uint32(1) if single else d.view(np.uint64) << np.uint64(1)
    keys |= d > 0
    keys.sort(axis=1)
    n = d.shape[1]
    bits, short = keys & keys.dtype.type(1), n * (n + 1) < 2 * _EXACT
    positive: Singles = bits.astype(np.float32) if short else bits.astype(np.float64)
    keys >>= keys.dtype.type(1)
    zeros = (keys[:, 0] == 0).astype(np.int64)
    some = np.flatnonzero(zeros)
    zeros[some] = np.count_nonzero(keys[some] == 0, axis=1)
    return positive, keys, zeros, keys[:, 1:] == keys[:, :-1]


def _rank_sum(positive: Singles, zeros: npt.NDArray[np.int64]) -> Floats:
    """Return the sum of the ranks of positive differences, as if none were tied; ranks start after the zeros."""
    n = positive.shape[1]
    sums = (positive @ np.stack([np.arange(1.0, n + 1), np.ones(n)], axis=1).astype(positive.dtype)).astype(np.float64)
    return np.asarray(sums[:, 0] - zeros * sums[:, 1])


def _mean_ranks(ordered: Keys, zeros: npt.NDArray[np.int64]) -> Floats:
    """Return ranks among the non-zero values, ties sharing their mean; ranks of zeros are not positive."""
    rows, n = ordered.shape
    place = np.broadcast_to(np.arange(n), (rows, n))
    new = np.ones((rows, n), dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(new, place, 0), axis=1)
    ends = np.ones((rows, n), dtype=bool)
    ends[:, :-1] = new[:, 1:]
    last = np.minimum.accumulate(np.where(ends, place, n)[:, ::-1], axis=1)[:, ::-1]
    ranks = (first + last) / 2 + 1 - zeros[:, None]
    return np.where(ordered > 0, ranks, 0.0)


def _with_ties(positive: npt.NDArray[np.bool_], ordered: Keys, zeros: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the sum of the positive mean ranks, and the sum of t**3 - t over groups of t equal magnitudes."""
    rows, n = ordered.shape
    new = np.ones((rows, n), dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])
    start = np.flatnonzero(new)
    size = np.diff(start, append=rows * n)
    row, place = np.divmod(start, n)
    won = np.add.reduceat(positive.ravel(), start, dtype=np.int32)
    magnitude = ordered.ravel()[start] > 0
    rank = place - zeros[row] + (size + 1) / 2
    cubes = size.astype(np.float64) ** 3 - size
    r_plus = np.bincount(row, weights=magnitude * rank * won, minlength=rows)
    tie_term = np.bincount(row, weights=magnitude * cubes, minlength=rows)
    return r_plus.astype(np.float64), tie_term.astype(np.float64)


def _with_few_ties(positive: Singles, equal: Mask, zeros: npt.NDArray[np.int64], few: Mask) -> tuple[Floats, Floats]:
    """Return what mean ranks add to the sum of the positive ranks, and the sum of t**3 - t over groups of t equals.

    Both ``(k,)``, 0 but in the rows `few` ``(k,)``. `equal`: where a magnitude equals the next one ``(k, n - 1)``.
    """
    rows, n = positive.shape
    row, place = np.divmod(np.flatnonzero(equal if few.all() else equal & few[:, None]), max(n - 1, 1))
    above = place >= zeros[row]
    pairs = row[above] * n + place[above]
    first = np.flatnonzero(np.diff(pairs, prepend=-2) != 1)
    start, size = pairs[first], np.diff(first, append=len(pairs)) + 1
    own = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    won = positive.ravel()[np.repeat(start, size) + own]
    moved = won * (np.repeat((size - 1) / 2, size) - own)
    cubes = size.astype(np.float64) ** 3 - size
    return (
        np.bincount(np.repeat(start // n, size), moved, rows).astype(np.float64),
        np.bincount(start // n, cubes, rows).astype(np.float64),
    )


def _asymptotic(r_plus: Floats, count: Floats, tie_term: Floats) -> Floats:
    mean = count * (count + 1) * 0.25
    variance = (count * (count + 1) * (2 * count + 1) - tie_term / 2) / 24
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(scipy.special.ndtr((mean - r_plus) / np.sqrt(variance)))


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
    """Return p-values corrected for all comparisons given; NaN (not testable) stays NaN and is not counted."""
    found = np.array(p, dtype=np.float64)
    testable = ~np.isnan(found)
    values = found[testable]
    if method == "bonferroni":
        found[testable] = np.minimum(values * len(values), 1)
    else:
        order = np.argsort(values)
        steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
        values[order] = np.minimum(steps, 1)
        found[testable] = values
    return found
