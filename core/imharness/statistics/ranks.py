"""Intervals of ranks: which place an entry holds among others, and how sure that is.

An entry's rank lies between 1 plus the number of others that are better and the number of entries minus those that are
worse, where "better" and "worse" are told by simultaneous intervals of the differences to every other entry. Such an
interval of a rank holds its level whatever the ties (Mogstad, Romano, Shaikh and Wilhelm, "Inference for Ranks with
Applications to Mobility across Neighbourhoods and Academic Achievement across Countries", Review of Economic Studies
2024, section 3). The simultaneous intervals are those of the largest studentised difference (max-t) over resampled
units or clusters. As plain quantiles of k clusters are too narrow, that quantile of a normal distribution gives way to
the one of Student's t with the same tail, times sqrt(k / (k - 1)), as in `imharness.statistics.bootstrap`. With fewer
than five units or clusters nothing is told.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics.bootstrap import LEVEL, RESAMPLES
from imharness.statistics.clusters import FEWEST, coded
from imharness.statistics.head_to_head import resampled

Floats = npt.NDArray[np.float64]
_HELD = 2**22
"""Numbers of resamples that are looked at together."""
_KEPT = 2**23
"""Numbers of resamples that are kept for the next entry."""


@dataclass(frozen=True)
class Rank:
    """The place of an entry among m others; 1 is the best, and entries with the same mean share a place.

    `best` and `worst` are the ends of its interval. `ahead` ``(m,)``: mean advantage of each other entry over this one,
    NaN where they share no unit; `low` and `high` are simultaneous intervals, NaN where nothing is told. `needed`
    ``(m,)``: how many units, or clusters, a difference of this size and spread needs to be told; NaN where it is zero
    or not known.
    """

    place: int
    best: int
    worst: int
    ahead: Floats
    low: Floats
    high: Floats
    needed: Floats


def rank_of(
    own: Floats,
    others: Floats,
    clusters: npt.ArrayLike | None = None,
    weights: Floats | None = None,
    *,
    resamples: int = RESAMPLES,
) -> Rank:
    """Return the rank of an entry; `own` ``(n,)`` and `others` ``(m, n)`` are gains by unit, more is better.

    NaN where an entry has no number: a difference is taken over the units that both have. `clusters`: the name of each
    unit's cluster ``(n,)``, resampled as a whole; without them every unit is one. `weights`: how much each unit counts
    ``(n,)``, above 0; without them all count the same.
    """
    d = np.asarray(others, dtype=np.float64) - own
    known = ~np.isnan(d)
    codes, k = coded(np.arange(d.shape[1]) if clusters is None else clusters)
    counted = known * (1.0 if weights is None else weights)
    sums, sizes = (_by_cluster(part, codes, k) for part in (np.where(known, d, 0.0) * counted, counted))
    with np.errstate(invalid="ignore", divide="ignore"):
        ahead = sums.sum(axis=1) / sizes.sum(axis=1)
        if k < FEWEST or not len(d):
            nothing = np.full(len(d), np.nan)
            return Rank(_place(ahead), 1, len(d) + 1, ahead, nothing, nothing, nothing)
        spread = np.concatenate([own @ sums.T / (own @ sizes.T) for own in _drawn(k, resamples)]) - ahead
        error = np.sqrt(np.nanmean(np.where(np.isnan(ahead), 0.0, spread) ** 2, axis=0))
        told = (error > 0) & np.isfinite(ahead)
        largest = np.abs(spread[:, told] / error[told]).max(axis=1, initial=0.0)
        half = _widened(float(np.percentile(largest, 100 * LEVEL)), k) * error
        needed = np.where(told & (ahead != 0), np.ceil(k * (half / ahead) ** 2), np.nan)
    low, high = ahead - half, ahead + half
    return Rank(
        _place(ahead), 1 + int((low > 0).sum()), 1 + len(d) - int((high < 0).sum()), ahead, low, high, needed
    )  # fmt: skip


def _place(ahead: Floats) -> int:
    return 1 + int((ahead > 0).sum())


def _by_cluster(rows: Floats, codes: npt.NDArray[np.int64], k: int) -> Floats:
    return np.array([np.bincount(codes, row, k) for row in rows]).reshape(len(rows), k)


def _drawn(k: int, resamples: int) -> Iterator[Floats]:
    """Yield how often each of k clusters is drawn ``(r, k)``, some resamples after the other.

    The site's page draws the same.
    """
    step, kept = max(_HELD // k, 1), k * resamples <= _KEPT
    for first in range(0, resamples, step):
        some = min(step, resamples - first)
        yield _all_drawn(k, resamples)[first : first + some] if kept else _counts(k, some, first)


@functools.lru_cache(maxsize=1)
def _all_drawn(k: int, resamples: int) -> Floats:
    step = max(_HELD // k, 1)
    found = np.concatenate([_counts(k, min(step, resamples - i), i) for i in range(0, resamples, step)])
    found.setflags(write=False)
    return found


def _counts(k: int, resamples: int, first: int) -> Floats:
    picks = resampled(k, resamples, first)
    flat = (picks + k * np.arange(len(picks))[:, None]).ravel()
    return np.bincount(flat, minlength=picks.size).reshape(picks.shape).astype(np.float64)


def _widened(quantile: float, k: int) -> float:
    """Return the quantile of Student's t of k that cuts off as much as a normal one, times sqrt(k / (k - 1))."""
    return float(np.sqrt(k / (k - 1)) * scipy.stats.t.isf(scipy.stats.norm.sf(quantile), k - 1))


def front(first: npt.ArrayLike, second: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which of ``(n,)`` points no other beats in one of two numbers without losing in the other; more is better.

    A point with NaN is on no front and beats nobody.
    """
    points = np.stack([np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)])
    known = np.asarray(np.isfinite(points[0]) & np.isfinite(points[1]))
    pairs = points[:, :, None], points[:, None, :]
    beats = np.greater_equal(*pairs).all(axis=0) & np.greater(*pairs).any(axis=0)
    beaten = (beats & known[:, None]).any(axis=0)
    return np.asarray(known & ~beaten)
