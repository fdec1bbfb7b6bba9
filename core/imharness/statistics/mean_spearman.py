"""The mean of Spearman's rank correlations of many lines of scores with one set of labels, with a bootstrap interval.

A *line* is a row of scores, one for each unit; a *resample* draws units with replacement. Instead of sorting each
resample again, this module sorts each line once and works with counts: unit i was drawn c_i times, m draws in all.

**One line.** Equal numbers form a group and share their mean rank. Let t be how often the units of a group were drawn.
The rank of a group is the number of draws below it plus (t + 1) / 2. The variance of the ranks R is known in closed
form: the sum of c (R - (m + 1) / 2)^2 is (m^3 - sum of t^3) / 12 (Kendall, "Rank Correlation Methods", chapter 3).
Ranks are doubled in the code, so that all sums are sums of whole numbers and exact; each correlation is that of the
resampled units, and not an approximation.

**Many lines at once.** Lines without equal numbers all have the same denominator, so their mean needs only the sum of
their numerators. That sum is a quadratic form: over all pairs of units j and i, the number of lines in which j is below
i less the number in which j is above i, times the draws of j, times the weighted label rank of i. A line with a few
equal pairs among thousands of units is treated as one without in the denominator alone, which changes the denominator
by less than the share `_FEW`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import LEVEL, RESAMPLES, Interval, drawn, percentiles
from imharness.statistics.clusters import Codes, coded, kinds
from imharness.statistics.correlation import NEEDED

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]
"""Whole numbers: 32-bit integers, which take half the memory, while no sum exceeds them; otherwise 64-bit floats."""
_AT_ONCE = 2**17
"""How many numbers (units times resamples) are computed together: their arrays fit into a processor's cache."""
_SMALL = 1290
"""The largest number of draws whose third power fits into 32 bits."""
_UNITS = range(256, 2**14 + 1)
"""Numbers of units for which many lines are summed at once: for fewer, one by one is as fast; more need much memory."""
_LINES = range(8, 2**15)
"""Numbers of lines that are summed at once: for fewer it does not pay, and more cannot be counted in int16."""
_WIDE, _HELD = 256, 2**22
"""Where all lines are summed, this many resamples are computed together, or more, as long as units times resamples are
at most the second number."""
_KEPT = 2**23
"""Resamples are kept for the next lines over the same units if units times resamples are at most this number."""
_FEW = 1e-8
"""The largest share of a denominator that equal numbers may make up in a line that is summed with others."""
_EXACT = 2**24
"""Whole numbers up to this are exact as 32-bit floats."""


class _Sorted(NamedTuple):
    """A sorted line of n numbers.

    `order` ``(n,)``: the positions of the numbers, ascending. `starts` ``(groups,)``: where in that order each group
    of equal numbers begins.
    """

    order: Codes
    starts: Codes

    def sums(self, rows: Numbers, out: Numbers) -> Numbers:
        """Return the sums over each group ``(groups, r)`` of rows ``(n, r)``; `out` is overwritten."""
        np.take(rows, self.order, axis=0, out=out, mode="clip")
        return (
            out if len(self.starts) == len(self.order) else np.add.reduceat(out, self.starts, axis=0, dtype=out.dtype)
        )


class _Alike(NamedTuple):
    """The lines that have numbers for the same n units.

    Attributes:
        units: the positions of the units ``(n,)``.
        labels: the labels of the units, sorted.
        lines: the lines that are computed one by one, sorted.
        summed: how many further lines are summed at once.
        below: of the summed lines, ``below[j, i]`` is the number in which j is below i, less the number in which j is
            above i; ``(n, n)``.
    """

    units: npt.NDArray[np.int64]
    labels: _Sorted
    lines: list[_Sorted]
    summed: int
    below: npt.NDArray[np.int16]


class _Drawn(NamedTuple):
    """r resamples of n units, with everything that is the same for all lines over these units.

    Attributes:
        counts: how often each unit was drawn ``(n, r)``.
        weighted: the same times the doubled rank of the unit's label, less its mean ``(n, r)``.
        draws: how many units each resample drew in all ``(r,)``.
        spread: the spread of the label ranks, m^3 less the sum of t^3 over groups of equal labels ``(r,)``.
        met: the sum of counts times weighted: what each unit contributes with itself ``(r,)``.
        cubes: the sum of the third powers of counts ``(r,)``.
    """

    counts: Numbers
    weighted: Numbers
    draws: Floats
    spread: Floats
    met: Floats
    cubes: Floats


def mean_spearman(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Return the mean over lines ``(k, n)`` of Spearman's rho with labels ``(n,)``, with a percentile interval.

    Each line is correlated over the units for which it has a finite number. A line with fewer than three units, or
    whose numbers or labels are all equal, has no correlation and is left out. If that is so in a resample alone, the
    line may have any correlation there: it counts as -1 for the lower end of the interval and as 1 for the upper end.
    `clusters`: the name of each unit's cluster ``(n,)``; clusters are drawn as a whole. Raises `NotTestable` if no line
    has a correlation.
    """
    x, y = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    alike = _grouped(x, y)
    ones = np.ones((len(y), 1))
    whole = [_labelled(group.labels, ones[group.units]) for group in alike]
    defined = [bool(np.isfinite(rho[0])) for rho, _ in _each(alike, whole)]
    if not any(defined):
        raise NotTestable("no line has a correlation with the labels")
    value = _least_and_most(alike, whole, defined)[0][0]
    codes, k = coded(np.arange(len(y)) if clusters is None else clusters)
    size = None if clusters is None else k
    width = max(_AT_ONCE // len(y), 16) if any(group.lines for group in alike) else max(_HELD // len(y), _WIDE)
    batches = (_resampled(group, codes[group.units], (k, resamples), width) for group in alike)
    ends = [_least_and_most(alike, draws, defined) for draws in zip(*batches, strict=True)]
    (low, _), (_, high) = (percentiles(np.concatenate(estimates), k, level) for estimates in zip(*ends, strict=True))
    return Interval(float(value), float(low), float(high), len(y), size)


def _grouped(scores: Floats, labels: Floats) -> list[_Alike]:
    """Return the lines in groups that have the same units."""
    masks, group = kinds(np.isfinite(scores))
    groups = []
    for i, mask in enumerate(masks):
        rows = scores[group == i][:, mask]
        summed = _tie_term(rows) <= _FEW * rows.shape[1] ** 3
        if mask.sum() not in _UNITS or summed.sum() not in _LINES:
            summed[:] = False
        lines = [_sorted(line) for line in rows[~summed]]
        below = _below(rows[summed])
        groups.append(_Alike(np.flatnonzero(mask), _sorted(labels[mask]), lines, int(summed.sum()), below))
    return [group for group in groups if len(group.units)]


def _tie_term(rows: Floats) -> Floats:
    """Return the sum of t**3 - t over groups of t equal numbers in each row ``(k, n)``: ``(k,)``."""
    risen = np.sort(rows, axis=1)
    terms = np.zeros(len(rows))
    for i in np.flatnonzero((risen[:, 1:] == risen[:, :-1]).any(axis=1)):
        t = np.unique(risen[i], return_counts=True)[1].astype(np.float64)
        terms[i] = (t**3 - t).sum()
    return terms


def _below(lines: Floats) -> npt.NDArray[np.int16]:
    """Return `_Alike.below` of lines ``(k, n)``: at ``[j, i]`` in how many lines j is below i, less above; ``(n, n)``.

    Only half of the pairs are compared; the other half has the same numbers with the opposite sign.
    """
    k, n = lines.shape
    if not k:
        return np.zeros((0, 0), dtype=np.int16)
    order = lines.argsort(axis=1, kind="stable")
    ranks = order.argsort(axis=1).astype(np.uint16)
    matrix, start = np.empty((n, n), dtype=np.int16), 0
    while start < n:
        end = start + max(2 * _AT_ONCE // (n - start), 1)
        block = _smaller(ranks[:, start:end], ranks[:, start:])
        matrix[start:end, start:] = block
        matrix[start:, start:end] = -block.T
        start = end
    np.fill_diagonal(matrix, 0)
    for line, line_order in zip(lines, order, strict=True):
        _correct_ties(matrix, line[line_order], line_order)
    return matrix


def _smaller(first: npt.NDArray[np.uint16], second: npt.NDArray[np.uint16]) -> npt.NDArray[np.int16]:
    """Return in how many lines a rank of ``(k, a)`` is below one of ``(k, b)``, less in how many not: ``(a, b)``."""
    totals = np.full((first.shape[1], second.shape[1]), -len(first), dtype=np.int16)
    is_less, count = np.empty(totals.shape, dtype=bool), np.empty(totals.shape, dtype=np.uint8)
    for start in range(0, len(first), 255):  # as many as uint8 can count
        count[:] = 0
        for low, high in zip(first[start : start + 255], second[start : start + 255], strict=True):
            np.less(low[:, None], high, out=is_less)
            count += is_less.view(np.uint8)
        totals += count  # k less than minus (k - less) not less is 2 less - k
        totals += count
    return totals


def _correct_ties(below: npt.NDArray[np.int16], ascending: Floats, order: Codes) -> None:
    """Correct `below` in place for the equal numbers of a line, which were counted as if one were below the other.

    `ascending`: the numbers of the line, sorted. `order`: the unit of each.
    """
    for distance in range(1, len(ascending)):
        at = np.flatnonzero(ascending[distance:] == ascending[:-distance])
        if not len(at):
            return
        below[order[at], order[at + distance]] -= 1
        below[order[at + distance], order[at]] += 1


def _sorted(numbers: Floats) -> _Sorted:
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    return _Sorted(order, np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]])))


def _resampled(group: _Alike, codes: Codes, how: tuple[int, int], width: int) -> Iterable[_Drawn]:
    """Return all resamples of the units of some lines, `width` resamples in each item.

    `codes`: the cluster of each of these units ``(n,)``. `how`: how many clusters and how many resamples there are.
    Small resamples are kept for the next lines over the same units.
    """
    if len(codes) * how[1] > _KEPT:
        return _new_resamples(group.labels, codes, how, width)
    return _kept_resamples(group.labels.order.tobytes(), group.labels.starts.tobytes(), codes.tobytes(), how, width)


@functools.lru_cache(maxsize=1)
def _kept_resamples(order: bytes, starts: bytes, codes: bytes, how: tuple[int, int], width: int) -> list[_Drawn]:
    """Return `_new_resamples` of arrays as bytes, by which a cache can look them up."""
    labels = _Sorted(*(np.frombuffer(buffer, dtype=np.int64) for buffer in (order, starts)))
    return list(_new_resamples(labels, np.frombuffer(codes, dtype=np.int64), how, width))


def _new_resamples(labels: _Sorted, codes: Codes, how: tuple[int, int], width: int) -> Iterator[_Drawn]:
    for counts in drawn(*how):
        for start in range(0, len(counts), width):
            yield _labelled(labels, np.ascontiguousarray(counts[start : start + width].T[codes]))


def _labelled(labels: _Sorted, counts: Floats) -> _Drawn:
    """Return resamples with what they make of the labels. `counts` ``(n, r)``: how often each unit was drawn."""
    draws = counts.sum(axis=0)
    compact_counts: Numbers = counts.astype(np.int32) if draws.max() <= _SMALL else counts
    kind, m = compact_counts.dtype, draws.astype(compact_counts.dtype)
    t = labels.sums(compact_counts, np.empty_like(compact_counts))
    sizes = np.diff(labels.starts, append=len(compact_counts))
    doubled = np.empty_like(compact_counts)
    doubled[labels.order] = np.repeat(2 * np.cumsum(t, axis=0, dtype=kind) - t - m, sizes, axis=0)
    weighted = compact_counts * doubled
    spread = draws**3 - _summed(t, t, t)
    return _Drawn(
        compact_counts,
        weighted,
        draws,
        spread,
        _summed(weighted, compact_counts),
        _summed(compact_counts, compact_counts, compact_counts),
    )


def _least_and_most(alike: list[_Alike], resamples: Sequence[_Drawn], defined: Sequence[bool]) -> tuple[Floats, Floats]:
    """Return the least and the largest mean correlation that lines can have in each of r resamples, each ``(r,)``.

    The two differ in a resample where a line has no correlation: it then counts as -1 and as 1. `resamples`: those of
    the units of each group. `defined`: which of the items of `_each` have a correlation over all units; the others do
    not count.
    """
    total, missing, count = np.zeros(len(resamples[0].draws)), np.zeros(len(resamples[0].draws)), 0
    for (rho, lines), counts in zip(_each(alike, resamples), defined, strict=True):
        if counts:
            total += np.nan_to_num(rho)
            missing += lines * np.isnan(rho)
            count += lines
    return (total - missing) / count, (total + missing) / count


def _each(alike: list[_Alike], resamples: Sequence[_Drawn]) -> Iterator[tuple[Floats, int]]:
    """Yield what `_correlations` yields, group by group."""
    for group, counted in zip(alike, resamples, strict=True):
        yield from _correlations(group, counted)


def _correlations(group: _Alike, resamples: _Drawn) -> Iterator[tuple[Floats, int]]:
    """Yield the sum of correlations in each resample ``(r,)``, NaN where not defined, and the number of their lines.

    Each line is yielded alone, except for those that are summed together.
    """
    counts, weighted, draws, spread, met_without_ties, cubes_without_ties = resamples

    def correlated(shared: Floats, cubes: Numbers) -> Floats:
        norm = np.sqrt(np.maximum(draws**3 - cubes, 0) * np.maximum(spread, 0))
        valid = (norm > 0) & (draws >= NEEDED["spearman"])
        return np.asarray(np.divide(3 * shared, norm, out=np.full_like(draws, np.nan), where=valid))

    if group.summed:
        yield correlated(_all_before(group, counts, weighted), cubes_without_ties), group.summed
    buffers = [np.empty_like(counts) for _ in range(5 * bool(group.lines))]
    for line in group.lines:
        t, w = line.sums(counts, buffers[0]), line.sums(weighted, buffers[1])  # draws and weights of groups of ties
        has_ties = len(t) < len(counts)
        met, cubes = (_summed(w, t), _summed(t, t, t)) if has_ties else (met_without_ties, cubes_without_ties)
        yield correlated(met + 2.0 * _before(t, w, *buffers[2:]), cubes), 1


def _summed(first: Numbers, *others: Numbers) -> Numbers:
    """Return the sum over units of a product ``(r,)``."""
    product = first
    for other in others:
        product = product * other
    return np.asarray(product.sum(axis=0, dtype=first.dtype))


def _all_before(group: _Alike, counts: Numbers, weighted: Numbers) -> Floats:
    """Return the sum of the numerators of the lines that are summed at once ``(r,)``.

    It is the sum over pairs of units of the draws of one, the weight of the other, and `_Alike.below` of the two.
    """
    exact = group.summed * float(counts.sum(axis=0).max()) < _EXACT
    draws = counts.astype(np.float32 if exact else np.float64)
    totals, step = np.zeros(counts.shape[1]), max(8 * _AT_ONCE // len(group.below), 1)
    for start in range(0, len(group.below), step):
        above = group.below[start : start + step].astype(draws.dtype) @ draws
        totals -= np.einsum("ij,ij->j", weighted[start : start + step].astype(np.float64), above.astype(np.float64))
    return totals


def _before(t: Numbers, w: Numbers, product: Numbers, *spare: Numbers) -> Floats:
    """Return the sum over i of ``w[i]`` times the sum of all ``t[j]`` with j < i: ``(r,)``.

    This is done without sums over all pairs: neighbours are joined into pairs, pairs into fours, and so on. When two
    blocks are joined, the w of the second is multiplied by the t of the first. All arrays are overwritten: `product`
    and the two arrays of `spare` are buffers in the shape of t.
    """
    totals, buffers = np.zeros(t.shape[1]), spare
    while len(t) > 1:
        half = len(t) // 2
        firsts, seconds = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
        met = np.multiply(w[seconds], t[firsts], out=product[:half])
        totals += met.sum(axis=0, dtype=t.dtype)
        joined = tuple(buffer[: len(t) - half] for buffer in buffers)
        for block, out in zip((t, w), joined, strict=True):
            np.add(block[firsts], block[seconds], out=out[:half])
            out[half:] = block[2 * half :]  # the last block, if their number is odd
        buffers, (t, w) = (t, w), joined
    return totals
