"""The mean of many rank correlations with one set of labels, resampled by counts instead of by sorting again.

A resample draws unit i c_i times. With m draws in all, units that are sorted once, and midranks, the sum of
c (R - (m + 1) / 2)**2 is (m**3 - sum of t**3) / 12, where t counts the draws of each group of equal numbers (Kendall,
"Rank Correlation Methods", chapter 3); and the rank of a group is what was drawn before it, plus (t + 1) / 2. Ranks
are doubled here, so that all sums are of whole numbers and exact: each correlation is the one of the resampled units.

Lines without equal numbers have the same denominator. Of many such lines with the same units, only the sum of the
numerators is asked for, and that is a quadratic form: in how many more lines unit j stands below unit i than above it,
times what was drawn of j, times the ranks that were drawn of i. A line with a few equal pairs among thousands of units
counts as one without in the denominator alone, which it changes by less than `_FEW` of itself.
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
"""The number of units times resamples that are computed together: their arrays fit into a processor's cache."""
_SMALL = 1290
"""The largest number of draws whose third power fits into 32 bits."""
_UNITS = range(256, 2**14 + 1)
"""Numbers of units for which lines are summed first: fewer are as fast one by one, and more need much memory."""
_LINES = range(8, 2**15)
"""Numbers of lines that are summed: fewer are not worth it, and more cannot be counted in 16 bits with a sign."""
_WIDE = 256
"""Resamples that are looked at together where lines are summed, or more while units times resamples are `_HELD`."""
_HELD = 2**22
_KEPT = 2**23
"""The number of units times resamples that are kept for the next lines over the same units."""
_FEW = 1e-8
"""Share of a denominator that equal numbers of a line may make where lines are summed."""
_EXACT = 2**24
"""Whole numbers up to this are exact as 32-bit floats."""


class _Sorted(NamedTuple):
    """Positions in ascending order of their numbers, and where each group of equal numbers begins among them."""

    order: Codes
    starts: Codes

    def sums(self, rows: Numbers, out: Numbers) -> Numbers:
        """Return the sums over each group ``(groups, r)`` of rows ``(n, r)``; `out` is overwritten."""
        np.take(rows, self.order, axis=0, out=out, mode="clip")
        return (
            out if len(self.starts) == len(self.order) else np.add.reduceat(out, self.starts, axis=0, dtype=out.dtype)
        )


class _Alike(NamedTuple):
    """Lines that have the same units: these, their labels sorted, and the lines sorted.

    `summed`: so many further lines are not among `lines`; ``below[j, i]`` counts those of them in which j is below i,
    less those in which it is above.
    """

    units: npt.NDArray[np.int64]
    labels: _Sorted
    lines: list[_Sorted]
    summed: int
    below: npt.NDArray[np.int16]


class _Drawn(NamedTuple):
    """Resamples of units, and what they make of the labels, the same for all lines over these units.

    `counts` and `weighted` ``(n, r)``: how often each unit was drawn, and that times the doubled, centred rank of its
    label. ``(r,)``: `draws` in all, `spread` of the labels, and over lines without equal numbers the draws that meet
    themselves, `met`, and the third powers of the draws, `cubes`.
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

    Each line is correlated over the units that it has a finite number for; a line with fewer than three of them, or
    whose numbers or labels are all the same, is left out. In a resample such a line may have any correlation: it counts
    as -1 for the lower end and as 1 for the upper one. `clusters`: the name of each unit's cluster ``(n,)``, which is
    drawn as a whole. Raises `NotTestable` if no line has a correlation.
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
    """Return in how many lines ``(k, n)`` unit j is below unit i, minus those in which it is above: ``[j, i]``, (n, n).

    Half of the pairs are compared; the others follow with the opposite sign.
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
    for line, places in zip(lines, order, strict=True):
        _level(matrix, line[places], places)
    return matrix


def _smaller(first: npt.NDArray[np.uint16], second: npt.NDArray[np.uint16]) -> npt.NDArray[np.int16]:
    """Return in how many lines a rank of ``(k, a)`` is below one of ``(k, b)``, minus where it is not ``(a, b)``."""
    totals = np.full((first.shape[1], second.shape[1]), -len(first), dtype=np.int16)
    less, count = np.empty(totals.shape, dtype=bool), np.empty(totals.shape, dtype=np.uint8)
    for start in range(0, len(first), 255):
        count[:] = 0
        for low, high in zip(first[start : start + 255], second[start : start + 255], strict=True):
            np.less(low[:, None], high, out=less)
            count += less.view(np.uint8)
        totals += count
        totals += count
    return totals


def _level(below: npt.NDArray[np.int16], risen: Floats, places: Codes) -> None:
    """Correct `below` for equal numbers of a sorted line, of which one was counted below the other."""
    for apart in range(1, len(risen)):
        at = np.flatnonzero(risen[apart:] == risen[:-apart])
        if not len(at):
            return
        below[places[at], places[at + apart]] -= 1
        below[places[at + apart], places[at]] += 1


def _sorted(numbers: Floats) -> _Sorted:
    order = np.argsort(numbers, kind="stable")
    risen = numbers[order]
    return _Sorted(order, np.flatnonzero(np.concatenate([[True], risen[1:] != risen[:-1]])))


def _resampled(group: _Alike, codes: Codes, how: tuple[int, int], width: int) -> Iterable[_Drawn]:
    """Return the resamples of the units of some lines, `width` at once.

    `codes`: the cluster of each of these units ``(n,)``; `how`: how many clusters and resamples. If they are not
    too many, they are kept for the next lines over the same units.
    """
    if len(codes) * how[1] > _KEPT:
        return _made(group.labels, codes, how, width)
    return _known(group.labels.order.tobytes(), group.labels.starts.tobytes(), codes.tobytes(), how, width)


@functools.lru_cache(maxsize=1)
def _known(order: bytes, starts: bytes, codes: bytes, how: tuple[int, int], width: int) -> list[_Drawn]:
    labels = _Sorted(*(np.frombuffer(buffer, dtype=np.int64) for buffer in (order, starts)))
    return list(_made(labels, np.frombuffer(codes, dtype=np.int64), how, width))


def _made(labels: _Sorted, codes: Codes, how: tuple[int, int], width: int) -> Iterator[_Drawn]:
    for counts in drawn(*how):
        for start in range(0, len(counts), width):
            yield _labelled(labels, np.ascontiguousarray(counts[start : start + width].T[codes]))


def _labelled(labels: _Sorted, counts: Floats) -> _Drawn:
    """Return the resampled labels ``(n,)``, with the count of each unit in each resample ``(n, r)``."""
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
    """Return the least and the largest mean correlation ``(r,)`` in some resamples, of the units of each of the groups.

    `defined`: which of the lines that `_each` yields have a correlation over all units; the others do not count. Both
    differ where one of those has none in a resample.
    """
    total, missing, count = np.zeros(len(resamples[0].draws)), np.zeros(len(resamples[0].draws)), 0
    for (rho, lines), counts in zip(_each(alike, resamples), defined, strict=True):
        if counts:
            total += np.nan_to_num(rho)
            missing += lines * np.isnan(rho)
            count += lines
    return (total - missing) / count, (total + missing) / count


def _each(alike: list[_Alike], resamples: Sequence[_Drawn]) -> Iterator[tuple[Floats, int]]:
    """Yield what `_correlations` does for each of the groups."""
    for group, counted in zip(alike, resamples, strict=True):
        yield from _correlations(group, counted)


def _correlations(group: _Alike, resamples: _Drawn) -> Iterator[tuple[Floats, int]]:
    """Yield the sum of correlations in each resample ``(r,)``, NaN where not defined, and the number of their lines.

    Each line is yielded alone, except for those that are summed together.
    """
    counts, weighted, draws, spread, *whole = resamples

    def correlated(shared: Floats, cubes: Numbers) -> Floats:
        norm = np.sqrt(np.maximum(draws**3 - cubes, 0) * np.maximum(spread, 0))
        valid = (norm > 0) & (draws >= NEEDED["spearman"])
        return np.asarray(np.divide(3 * shared, norm, out=np.full_like(draws, np.nan), where=valid))

    if group.summed:
        yield correlated(_all_before(group, counts, weighted), whole[1]), group.summed
    buffers = [np.empty_like(counts) for _ in range(5 * bool(group.lines))]
    for line in group.lines:
        t, w = line.sums(counts, buffers[0]), line.sums(weighted, buffers[1])
        met, cubes = (_summed(w, t), _summed(t, t, t)) if len(t) < len(counts) else whole
        yield correlated(met + 2.0 * _before(t, w, *buffers[2:]), cubes), 1


def _summed(first: Numbers, *others: Numbers) -> Numbers:
    """Return the sum over units of a product ``(r,)``."""
    product = first
    for other in others:
        product = product * other
    return np.asarray(product.sum(axis=0, dtype=first.dtype))


def _all_before(group: _Alike, counts: Numbers, weighted: Numbers) -> Floats:
    """Return the numerators of the lines that are summed ``(r,)``: over pairs of units the draws of one times the
    weight of the other, times `below`."""
    exact = group.summed * float(counts.sum(axis=0).max()) < _EXACT
    draws = counts.astype(np.float32 if exact else np.float64)
    totals, step = np.zeros(counts.shape[1]), max(8 * _AT_ONCE // len(group.below), 1)
    for start in range(0, len(group.below), step):
        above = group.below[start : start + step].astype(draws.dtype) @ draws
        totals -= np.einsum("ij,ij->j", weighted[start : start + step].astype(np.float64), above.astype(np.float64))
    return totals


def _before(t: Numbers, w: Numbers, product: Numbers, *spare: Numbers) -> Floats:
    """Return the sum over i of ``w[i]`` times the sum of all ``t`` before it ``(r,)``; all arrays are overwritten.

    Neighbours are joined into pairs, then pairs into fours, and so on; each time the second part meets the first.
    """
    totals, others = np.zeros(t.shape[1]), spare
    while len(t) > 1:
        half = len(t) // 2
        met = np.multiply(w[1 : 2 * half : 2], t[: 2 * half : 2], out=product[:half])
        totals += met.sum(axis=0, dtype=t.dtype)
        joined = tuple(other[: len(t) - half] for other in others)
        for block, out in zip((t, w), joined, strict=True):
            np.add(block[: 2 * half : 2], block[1 : 2 * half : 2], out=out[:half])
            out[half:] = block[2 * half :]
        others, (t, w) = (t, w), joined
    return totals
