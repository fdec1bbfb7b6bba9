"""Bootstrap confidence intervals: percentile, seeded, vectorised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imharness_statistics import NotTestable

Floats = npt.NDArray[np.float64]
RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval and the number of units resampled."""

    value: float
    low: float
    high: float
    n: int


def _resamples(n: int, resamples: int, seed: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, n, (resamples, n))


def _percentiles(estimates: Floats, level: float) -> tuple[float, float]:
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(estimates, [tail, 100 - tail])
    return float(low), float(high)


def mean_interval(
    values: npt.ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES, level: float = LEVEL
) -> Interval:
    """Return the mean of ``(n,)`` with a percentile interval; raises `NotTestable` for n = 0 or NaN."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0 or not np.isfinite(x).all():
        raise NotTestable(f"a mean needs finite values, got {len(x)}")
    estimates = x[_resamples(len(x), resamples, seed)].mean(axis=1)
    return Interval(float(x.mean()), *_percentiles(estimates, level), len(x))


def mean_intervals(rows: npt.ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES) -> list[Interval | None]:
    """Return `mean_interval` of each row of ``(k, n)``; NaN and infinity are left out, None where nothing is left.

    Rows without gaps are resampled together, as one matrix product of counts and values.
    """
    x = np.asarray(rows, dtype=np.float64)
    finite = np.isfinite(x)
    found: list[Interval | None] = [None] * len(x)
    whole = np.flatnonzero(finite.all(axis=1)) if x.shape[1] else np.array([], dtype=int)
    if len(whole):
        picks = _resamples(x.shape[1], resamples, seed)
        flat = (picks + x.shape[1] * np.arange(resamples)[:, None]).ravel()
        counts = np.bincount(flat, minlength=resamples * x.shape[1]).reshape(resamples, -1)
        estimates = x[whole] @ (counts.T / x.shape[1])
        tail = 100 * (1 - LEVEL) / 2
        low, high = np.percentile(estimates, [tail, 100 - tail], axis=1)
        for i, a, b in zip(whole, low, high, strict=True):
            found[i] = Interval(float(x[i].mean()), float(a), float(b), x.shape[1])
    for i in np.flatnonzero(finite.any(axis=1) & ~finite.all(axis=1)) if x.shape[1] else ():
        found[i] = mean_interval(x[i][finite[i]], seed=seed, resamples=resamples)
    return found


def interval(
    statistic: Callable[[npt.NDArray[np.int64]], Floats],
    n: int,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Return any statistic with a percentile interval.

    `statistic` maps resampled positions ``(r, n)`` to ``(r,)`` estimates; estimates that are NaN (not defined on that
    resample) are left out. Raises `NotTestable` when the statistic is not defined on the data themselves.
    """
    if n == 0:
        raise NotTestable("no units to resample")
    value = float(statistic(np.arange(n)[None])[0])
    if not np.isfinite(value):
        raise NotTestable("the statistic is not defined on these data")
    estimates = statistic(_resamples(n, resamples, seed))
    estimates = estimates[np.isfinite(estimates)]
    low, high = _percentiles(estimates, level) if len(estimates) else (value, value)
    return Interval(value, low, high, n)
