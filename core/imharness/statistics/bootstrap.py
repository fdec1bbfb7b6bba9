"""Confidence intervals: percentiles of fixed resamples, and Student's t for few repetitions.

A hash draws, so that ``contest.js``, the script of the site's pages, draws the same. If units belong to clusters,
whole clusters are resampled, and the statistic is taken over all units of the drawn ones. Plain percentiles of k
clusters are too narrow. So the share that is cut off on each side is the one at which the interval of a normal mean has
the length of Student's: Phi(-t sqrt(k / (k - 1))), with t of k - 1 degrees of freedom (Hesterberg, "What Teachers
Should Know About the Bootstrap", The American Statistician 2015, section 5.3). With fewer than five clusters there is
no interval.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable
from imharness.statistics.clusters import FEWEST, Codes, coded

Floats = npt.NDArray[np.float64]
RESAMPLES = 1000
LEVEL = 0.95
_REUSED = 2**23
"""Resamples of at most so many numbers stay in memory for the next call."""
_AT_ONCE = 2**21
"""Of larger resamples, a batch of so many numbers is in memory at once."""
_IN_CACHE = 2**15
"""How many numbers of resamples fit into a processor's cache."""
ENOUGH = 1000
"""With more clusters than this, plain percentiles are as long as Student's interval, to two parts in a thousand."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval, the number of units, and of the clusters they come from.

    `low` and `high` are NaN if there are too few clusters or repetitions for an interval. `clusters` is None if units
    are independent.
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int | None = None


def resampled(k: int, resamples: range = range(RESAMPLES), units: int = 0) -> Iterator[Codes]:
    """Yield which of k clusters each resample draws ``(r, k)``, in batches that fit into a processor's cache.

    `units`: how many units the clusters have together. Batches are so small that the units of all their resamples fit
    into memory, too. Draw i of resample r, both counted from 0, is ``hash(hash(r + 1) + i) * k / 2**32``, rounded down,
    in arithmetic of 32 bits. With k above 2**21 the page, which multiplies in 64-bit floats, may round another way.
    """
    step, columns = max(min(_IN_CACHE // k, _AT_ONCE // max(units, k)), 1), np.arange(k, dtype=np.uint32)
    for start in range(resamples.start, resamples.stop, step):
        rows = np.arange(start + 1, min(start + step, resamples.stop) + 1, dtype=np.uint32)
        picks = np.multiply(_hash(_hash(rows)[:, None] + columns), np.uint64(k), dtype=np.uint64)
        picks >>= np.uint64(32)
        yield picks.view(np.int64)


def _hash(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Mix 32 bits in place (Wellons' "lowbias32")."""
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x


def drawn(k: int, resamples: int = RESAMPLES) -> Iterator[Floats]:
    """Yield how often each resample draws each of k clusters ``(r, k)``, in batches; a small array is reused."""
    if k * resamples <= _REUSED:
        yield _reused_draws(k, resamples)
        return
    step = max(_AT_ONCE // k, 1)
    for start in range(0, resamples, step):
        yield _draw_counts(k, range(start, min(start + step, resamples)))


def _draw_counts(k: int, resamples: range) -> Floats:
    """Return how often each resample draws each of k clusters ``(len(resamples), k)``."""
    counts, start = np.empty((len(resamples), k)), 0
    for picks in resampled(k, resamples):
        counts[start : start + len(picks)] = _counts(picks, k)
        start += len(picks)
    return counts


@functools.lru_cache(maxsize=4)
def _reused_draws(k: int, resamples: int) -> Floats:
    counts = _draw_counts(k, range(resamples))
    counts.setflags(write=False)
    return counts


@functools.lru_cache(maxsize=1024)
def one_sided_alpha(clusters: int, level: float = LEVEL) -> float:
    """Return the share of estimates cut off on each side; NaN with fewer than `FEWEST` clusters.

    Where units are independent, each is a cluster.
    """
    share = (1 - level) / 2
    if clusters < FEWEST:
        return float("nan")
    if clusters > ENOUGH:
        return share
    t = scipy.stats.t.isf(share, clusters - 1)
    return float(scipy.stats.norm.sf(t * np.sqrt(clusters / (clusters - 1))))


def percentiles(estimates: Floats, clusters: int, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Return both ends of the interval of estimates ``(..., resamples)``, each ``(...,)``; see `one_sided_alpha`."""
    share = 100 * one_sided_alpha(clusters, level)
    if np.isnan(share):
        nothing = np.full(estimates.shape[:-1], np.nan)
        return nothing, nothing
    low, high = np.percentile(estimates, [share, 100 - share], axis=-1)
    return low, high


def percentiles_within(
    estimates: Floats, limits: tuple[float, float], clusters: int, level: float = LEVEL
) -> tuple[float, float]:
    """Return `percentiles` of estimates ``(resamples,)``, some of which may be NaN: not defined on their resample.

    An undefined estimate could be any number within the `limits`. So it counts as the lower limit for the lower end and
    as the upper limit for the upper end; without it the interval would be too short. Both ends are NaN if one of them
    is infinite.
    """
    defined = np.isfinite(estimates)
    with np.errstate(invalid="ignore"):
        low, _ = percentiles(np.where(defined, estimates, limits[0]), clusters, level)
        _, high = percentiles(np.where(defined, estimates, limits[1]), clusters, level)
    return (float(low), float(high)) if np.isfinite([low, high]).all() else (np.nan, np.nan)


def mean_interval(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Return the mean of ``(n,)`` with a percentile interval; raises `NotTestable` for n = 0 or NaN.

    `clusters`: the name of each value's cluster ``(n,)``; without them every value is a cluster of its own.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0 or not np.isfinite(x).all():
        raise NotTestable(f"a mean needs finite values, got {len(x)}")
    codes, k = coded(np.arange(len(x)) if clusters is None else clusters)
    sums, sizes = np.bincount(codes, x), np.bincount(codes)
    estimates = np.concatenate([(draw @ sums) / _units(draw, sizes) for draw in drawn(len(sums), resamples)])
    n_clusters = None if clusters is None else k
    low, high = percentiles(estimates, k, level)
    return Interval(float(x.mean()), float(low), float(high), len(x), n_clusters)


def mean_intervals(
    rows: npt.ArrayLike, clusters: npt.ArrayLike | None = None, *, resamples: int = RESAMPLES
) -> list[Interval | None]:
    """Return `mean_interval` of each row of ``(k, n)``; NaN and infinity are left out; None if nothing is left.

    Rows without gaps are resampled together, as one matrix product of counts and values.
    """
    x = np.asarray(rows, dtype=np.float64)
    names = None if clusters is None else np.asarray(clusters)
    finite = np.isfinite(x)
    intervals: list[Interval | None] = [None] * len(x)
    whole = np.flatnonzero(finite.all(axis=1)) if x.shape[1] else np.array([], dtype=int)
    if len(whole):
        codes, k = (None, x.shape[1]) if names is None else coded(names)
        n_clusters = None if codes is None else k
        sizes = np.ones(k, dtype=np.int64) if codes is None else np.bincount(codes)
        sums = x[whole] if codes is None else np.array([np.bincount(codes, row) for row in x[whole]])
        estimates = [(draw @ sums.T) / _units(draw, sizes)[:, None] for draw in drawn(k, resamples)]
        low, high = percentiles(np.concatenate(estimates).T, k)
        for i, lower_end, upper_end in zip(whole, low, high, strict=True):
            intervals[i] = Interval(float(x[i].mean()), float(lower_end), float(upper_end), x.shape[1], n_clusters)
    for i in np.flatnonzero(finite.any(axis=1) & ~finite.all(axis=1)) if x.shape[1] else ():
        mask = finite[i]
        intervals[i] = mean_interval(x[i][mask], None if names is None else names[mask], resamples=resamples)
    return intervals


def interval(
    statistic: Callable[[npt.NDArray[np.int64]], Floats],
    n: int,
    clusters: npt.ArrayLike | None = None,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Interval:
    """Return any statistic with a percentile interval.

    `statistic`: takes the positions of the units that each resample drew ``(r, m)``, and returns ``(r,)`` estimates; m
    is n, or another number if clusters differ in size. `clusters`: the name of each unit's cluster ``(n,)``. `limits`:
    the least and the largest number that the statistic can be; they take the place of an estimate that is NaN, not
    defined on its resample, see `percentiles_within`. Raises `NotTestable` when the statistic is not defined on the
    data themselves.
    """
    if n == 0:
        raise NotTestable("no units to resample")
    value = float(statistic(np.arange(n)[None])[0])
    if not np.isfinite(value):
        raise NotTestable("the statistic is not defined on these data")
    codes, k = (None, None) if clusters is None else coded(clusters)
    positions = resampled(k or n, range(resamples), n)
    if codes is not None:
        positions = (indices for picks in positions for indices in _units_of(codes, picks))
    estimates = np.concatenate([statistic(indices) for indices in positions])
    return Interval(value, *percentiles_within(estimates, limits, k or n, level), n, k)


def t_interval(values: npt.ArrayLike, *, level: float = LEVEL) -> Interval:
    """Return the mean of few independent repetitions ``(n,)``, such as splits, with Student's t interval.

    It holds its level for normal repetitions, however few they are; percentiles of resamples cover 76% with three. One
    repetition has a mean without an interval. Raises `NotTestable` for n = 0 or NaN.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0 or not np.isfinite(x).all():
        raise NotTestable(f"a mean needs finite values, got {len(x)}")
    mean, half = float(x.mean()), float("nan")
    if len(x) > 1:
        half = float(-scipy.special.stdtrit(len(x) - 1, (1 - level) / 2) * x.std(ddof=1) / np.sqrt(len(x)))
    return Interval(mean, mean - half, mean + half, len(x))


def _units(counts: Floats, sizes: Codes) -> Floats:
    """Return the number of units of each resample ``(r,)`` from counts of clusters ``(r, k)`` and sizes ``(k,)``."""
    if (sizes == sizes[0]).all():
        return np.full(len(counts), float(sizes[0] * len(sizes)))
    return np.asarray(counts @ sizes.astype(np.float64))


def _counts(picks: Codes, k: int) -> Codes:
    """Return how often each of k clusters is drawn ``(resamples, k)``."""
    flat = (picks + k * np.arange(len(picks))[:, None]).ravel()
    return np.bincount(flat, minlength=len(picks) * k).reshape(len(picks), k)


def _units_of(codes: Codes, picks: Codes) -> list[Codes]:
    """Return the positions of all units of the clusters that resamples draw.

    Resamples differ in how many units m they have. There is one array ``(r, m)`` for each m, ascending.

    Args:
        codes: the cluster of each unit ``(n,)``.
        picks: the clusters that each resample draws ``(resamples, k)``.
    """
    counts = _counts(picks, picks.shape[1])[:, codes]  # how often each resample draws each unit
    totals = counts.sum(axis=1)
    positions = []
    for total in np.unique(totals):
        counts_of_total = counts[totals == total]
        units = np.broadcast_to(np.arange(len(codes)), counts_of_total.shape)
        repeated = np.repeat(units.ravel(), counts_of_total.ravel())
        positions.append(repeated.reshape(len(counts_of_total), total))
    return positions
