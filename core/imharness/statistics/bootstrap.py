"""Confidence intervals: percentiles of seeded resamples, and Student's t for few repetitions.

If units belong to clusters, whole clusters are resampled, and the statistic is taken over all units of the drawn ones.
Plain percentiles of k clusters are too narrow. So the share that is cut off on each side is the one at which the
interval of a normal mean has the length of Student's: Phi(-t sqrt(k / (k - 1))), with t of k - 1 degrees of freedom
(Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 2015, section 5.3). With fewer
than five clusters there is no interval.
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
_KEPT = 2**23
"""How many numbers of resamples are kept for the next call."""
_HELD = 2**21
"""How many numbers of resamples are computed together."""


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


def _resamples(n: int, resamples: int, seed: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, n, (resamples, n))


def _picked(n: int, resamples: int, seed: int, size: int) -> Iterator[Codes]:
    """Yield the same, in batches for which `size` numbers for each resample fit into memory."""
    rng, step = np.random.default_rng(seed), max(_HELD // size, 2)
    for start in range(0, resamples, step):
        yield rng.integers(0, n, (min(step, resamples - start), n))


def drawn(k: int, resamples: int = RESAMPLES, seed: int = 0) -> Iterator[Floats]:
    """Yield how often each resample draws each of k clusters ``(r, k)``, in batches."""
    if k * resamples <= _KEPT:
        yield _all_drawn(k, resamples, seed)
        return
    rng, step = np.random.default_rng(seed), max(_HELD // k, 1)
    for start in range(0, resamples, step):
        yield _counts(rng.integers(0, k, (min(step, resamples - start), k)), k).astype(np.float64)


@functools.lru_cache(maxsize=4)
def _all_drawn(k: int, resamples: int, seed: int) -> Floats:
    counts = _counts(_resamples(k, resamples, seed), k).astype(np.float64)
    counts.setflags(write=False)
    return counts


@functools.lru_cache(maxsize=1024)
def tail(clusters: int | None = None, level: float = LEVEL) -> float:
    """Return the share of estimates cut off on each side; NaN with fewer than `FEWEST` clusters."""
    share = (1 - level) / 2
    if clusters is None:
        return share
    if clusters < FEWEST:
        return float("nan")
    t = scipy.stats.t.isf(share, clusters - 1)
    return float(scipy.stats.norm.sf(t * np.sqrt(clusters / (clusters - 1))))


def percentiles(estimates: Floats, clusters: int | None = None, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Return both ends of the interval of estimates ``(..., resamples)``, each ``(...,)``; see `tail`."""
    share = 100 * tail(clusters, level)
    if np.isnan(share):
        nothing = np.full(estimates.shape[:-1], np.nan)
        return nothing, nothing
    low, high = np.percentile(estimates, [share, 100 - share], axis=-1)
    return low, high


def mean_interval(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
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
    estimates = np.concatenate([(own @ sums) / _units(own, sizes) for own in drawn(len(sums), resamples, seed)])
    size = None if clusters is None else k
    low, high = percentiles(estimates, size, level)
    return Interval(float(x.mean()), float(low), float(high), len(x), size)


def mean_intervals(
    rows: npt.ArrayLike, clusters: npt.ArrayLike | None = None, *, seed: int = 0, resamples: int = RESAMPLES
) -> list[Interval | None]:
    """Return `mean_interval` of each row of ``(k, n)``; NaN and infinity are left out; None if nothing is left.

    Rows without gaps are resampled together, as one matrix product of counts and values.
    """
    x = np.asarray(rows, dtype=np.float64)
    names = None if clusters is None else np.asarray(clusters)
    finite = np.isfinite(x)
    found: list[Interval | None] = [None] * len(x)
    whole = np.flatnonzero(finite.all(axis=1)) if x.shape[1] else np.array([], dtype=int)
    if len(whole):
        codes, k = (None, x.shape[1]) if names is None else coded(names)
        size = None if codes is None else k
        sizes = np.ones(k, dtype=np.int64) if codes is None else np.bincount(codes)
        sums = x[whole] if codes is None else np.array([np.bincount(codes, row) for row in x[whole]])
        parts = [(own @ sums.T) / _units(own, sizes)[:, None] for own in drawn(k, resamples, seed)]
        low, high = percentiles(np.concatenate(parts).T, size)
        for i, a, b in zip(whole, low, high, strict=True):
            found[i] = Interval(float(x[i].mean()), float(a), float(b), x.shape[1], size)
    for i in np.flatnonzero(finite.any(axis=1) & ~finite.all(axis=1)) if x.shape[1] else ():
        kept = finite[i]
        found[i] = mean_interval(x[i][kept], None if names is None else names[kept], seed=seed, resamples=resamples)
    return found


def interval(
    statistic: Callable[[npt.NDArray[np.int64]], Floats],
    n: int,
    clusters: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Return any statistic with a percentile interval.

    `statistic` maps resampled positions ``(r, m)`` to ``(r,)`` estimates; m is n unless `clusters`, the names of the
    units' clusters ``(n,)``, differ in size. Estimates that are NaN (not defined on that resample) are left out.
    Raises `NotTestable` when the statistic is not defined on the data themselves.
    """
    if n == 0:
        raise NotTestable("no units to resample")
    value = float(statistic(np.arange(n)[None])[0])
    if not np.isfinite(value):
        raise NotTestable("the statistic is not defined on these data")
    codes, k = (None, None) if clusters is None else coded(clusters)
    positions = _picked(k or n, resamples, seed, max(n, k or n))
    if codes is not None:
        positions = (own for picks in positions for own in _units_of(codes, picks))
    estimates = np.concatenate([statistic(own) for own in positions])
    estimates = estimates[np.isfinite(estimates)]
    if len(estimates) == 0:
        return Interval(value, float("nan"), float("nan"), n, k)
    low, high = percentiles(estimates, k, level)
    return Interval(value, float(low), float(high), n, k)


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
    """Return the positions of all units of the drawn clusters: one array ``(r, m)`` for each total m."""
    counts = _counts(picks, picks.shape[1])[:, codes]
    totals = counts.sum(axis=1)
    found = []
    for total in np.unique(totals):
        mine = counts[totals == total]
        places = np.broadcast_to(np.arange(len(codes)), mine.shape)
        found.append(np.repeat(places.ravel(), mine.ravel()).reshape(len(mine), total))
    return found
