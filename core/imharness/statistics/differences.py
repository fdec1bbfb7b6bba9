"""All entries against each other: simultaneous intervals of the differences of their means over independent units.

Every pair of entries has an interval, and all of them cover at once with 95 %: the studentised max-t of Romano and Wolf
("Stepwise multiple testing as formalized data snooping", Econometrica 2005, section 4), two-sided. These intervals
answer every question of who is better than whom: places, marks, matrices, claims and comparisons read them, so that
none contradicts another.

Independent units, such as photographs, are resampled as a whole. With few of them, plain resamples repeat units so
often that the spread of a resample is sometimes nearly 0, and its largest t is far too large; a normal distribution in
their place would ignore skewness. So resamples are smoothed (Polansky and Schucany, "Kernel smoothing to improve
bootstrap confidence intervals", JRSS B 1997): each is ``sqrt(1 - h)`` times drawn units plus ``sqrt(h)`` times a normal
draw of the same covariance; h falls with the number of units. As k units say little about the covariance of more than k
entries, that of the normal draw is shrunk towards independent entries, as far as the units call for it (Schäfer and
Strimmer, "A shrinkage approach to large-scale covariance matrix estimation", SAGMB 2005, equation 10). How well this
covers is simulated in docs/concepts/statistics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics.bootstrap import LEVEL
from imharness.statistics.clusters import FEWEST, coded

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
RESAMPLES = 10_000
MANY = 200
"""With more entries than this, the level is divided by the number of comparisons (Bonferroni)."""
BATCHES = 100
"""More units than this are first summed into this many batches, which have the same mean and skewness."""
POWER = 0.8
MOST = 1_000
"""If more units than this are needed, their number is not given."""
SMOOTH, DEEPER = 0.75, 0.35
"""For c comparisons, a share of (SMOOTH + DEEPER log c) / k of a resample of k units is a normal draw."""
_AT_ONCE = 2**20
"""How many numbers of resamples are computed at once."""
_SAME = 1e-9
"""Differences that vary by less than this share of their size are constant except for rounding."""


@dataclass(frozen=True)
class Intervals:
    """Means with simultaneous intervals, of any shape; NaN where there is none.

    `units`: over how many independent units each mean is. `alpha`: the two-sided level of each single interval at which
    all of them cover at once: an interval is ``value`` plus or minus the quantile of Student's t of ``units - 1`` that
    cuts off ``alpha / 2``, times ``error``. With fewer than `FEWEST` units there is no interval.
    """

    value: Floats
    error: Floats
    units: npt.NDArray[np.int64]
    alpha: float
    value_range: float
    """The largest difference of two numbers of one unit, which a unit that was not measured may have."""
    limit: float = field(default=np.inf, kw_only=True)
    """What no mean can exceed in size, such as 100 for differences of shares in %; intervals end there."""

    @cached_property
    def half(self) -> Floats:
        """Half the length of each interval."""
        half_widths = np.full(self.value.shape, np.nan)
        for k in np.unique(self.units[self.units >= FEWEST]):
            mask = self.units == k
            half_widths[mask] = np.where(
                self.error[mask] > 0,
                quantile(self.alpha, int(k)) * self.error[mask],
                unseen(self.alpha, int(k)) * (self.value_range + np.abs(self.value[mask])),
            )
        return half_widths

    @property
    def low(self) -> Floats:
        """Lower ends."""
        return np.maximum(self.value - self.half, -self.limit)

    @property
    def high(self) -> Floats:
        """Upper ends."""
        return np.minimum(self.value + self.half, self.limit)

    @cached_property
    def above(self) -> Mask:
        """Where a mean is shown to be above zero."""
        return np.asarray(np.nan_to_num(self.low, nan=-1.0) > 0)

    @cached_property
    def below(self) -> Mask:
        """Where a mean is shown to be below zero."""
        return np.asarray(np.nan_to_num(self.high, nan=1.0) < 0)

    def needed_for(self, *index: int) -> int | None:
        """Return how many units show on which side of zero a mean is, in four of five studies.

        None with too few units, for a mean of 0, and above `MOST`.
        """
        k, value, error = int(self.units[index]), abs(float(self.value[index])), float(self.error[index])
        if k < FEWEST or not value > 0:
            return None
        if not error > 0:
            return alike_needed(value / (self.value_range + value), self.alpha)
        return units_needed(value / (error * np.sqrt(k)), self.alpha)


@dataclass(frozen=True)
class Differences(Intervals):
    """Entries against each other: all arrays are ``(entries, entries)``, for the mean advantage of the row's entry.

    NaN where two entries share no unit, and on the diagonal.
    """

    @property
    def better(self) -> Mask:
        """Where the row's entry is shown to be better than the column's."""
        return self.above

    def place(self, i: int, among: npt.ArrayLike | None = None) -> int:
        """Return one plus the number of entries whose mean is ahead of this one's; equals share a rank.

        `among`: the positions of the entries that count, all by default.
        """
        return 1 + int((self.value[self._those(among), i] > 0).sum())

    def places(self, i: int, among: npt.ArrayLike | None = None) -> tuple[int, int]:
        """Return the interval of an entry's place: one plus those shown to be better, and all but those shown worse.

        It holds its level with ties, too (Mogstad, Romano, Shaikh and Wilhelm, "Inference for Ranks with Applications
        to Mobility across Neighbourhoods and Academic Achievement across Countries", Review of Economic Studies 2024,
        section 3).
        """
        indices = self._those(among)
        others = int((~np.isnan(self.value[i, indices])).sum())
        return 1 + int(self.better[indices, i].sum()), 1 + others - int(self.better[i, indices].sum())

    def _those(self, among: npt.ArrayLike | None) -> npt.NDArray[np.int64]:
        return np.arange(len(self.value)) if among is None else np.asarray(among, dtype=np.int64)

    def leader(self, among: npt.ArrayLike) -> int:
        """Return, of some entries, the one that the fewest others are ahead of; of equals, the first."""
        indices = np.asarray(among, dtype=np.int64)
        return int(indices[(self.value[np.ix_(indices, indices)] > 0).sum(axis=0).argmin()])

    def needed(self, i: int, j: int) -> int | None:
        """Return how many units show i to be better than j in four of five studies; None where i is not ahead."""
        return self.needed_for(i, j) if self.value[i, j] > 0 else None


@lru_cache(maxsize=4096)
def quantile(alpha: float, units: int) -> float:
    """Return the t that cuts off ``alpha / 2`` at the upper end of Student's distribution of ``units - 1``."""
    return abs(float(scipy.special.stdtrit(units - 1, alpha / 2)))  # scipy.stats computes the same with it, slower


def unseen(alpha: float, units: int) -> float:
    """Return which share of the population may differ from these units, if all of these have the same number.

    It is the upper end of the exact interval of a share of 0 (Clopper and Pearson, "The use of confidence or fiducial
    limits", Biometrika 1934). So a difference that is the same on every unit has an interval, too.
    """
    return float(1 - (alpha / 2) ** (1 / units))


def units_needed(effect: float, alpha: float, reached: Callable[[int], float] | None = None) -> int | None:
    """Return how many units show a mean of `effect` standard deviations to be above zero in four of five studies.

    With so many, one side of the interval of two-sided level `alpha` has the power `POWER`, by the noncentral t
    distribution. None above `MOST` units: then the mean is near zero, and the number depends too much on it.
    `reached`: the t that n units have to reach, by default that of Student's interval.
    """
    return _student_needed(effect, alpha) if reached is None else _needed(effect, reached)


@lru_cache(maxsize=4096)
def _student_needed(effect: float, alpha: float) -> int | None:
    """Return `units_needed` for Student's interval; cached, as a leaderboard asks for the same numbers many times."""
    return _needed(effect, lambda n: quantile(alpha, n))


def _needed(effect: float, reached: Callable[[int], float]) -> int | None:
    """Return `units_needed`: double the number until it is enough, then bisect."""

    def power(n: int) -> float:
        least, shift = reached(n), effect * np.sqrt(n)
        # scipy.stats computes the same with this function, in seven times the time.
        probability = 1 - float(scipy.special.nctdtr(n - 1, shift, least))
        return float(scipy.stats.nct.sf(least, n - 1, shift)) if np.isnan(probability) else probability

    too_few, enough = FEWEST - 1, FEWEST
    while power(enough) < POWER:
        if enough > MOST:
            return None
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if power(middle) >= POWER:
            enough = middle
        else:
            too_few = middle
    return enough if enough <= MOST else None


def alike_needed(share: float, alpha: float) -> int | None:
    """Return the least number of units for which `unseen` is below a share, but at least `FEWEST`; None above `MOST`.

    All these units have the same number.
    """
    count = FEWEST
    if share < 1:
        count = max(FEWEST, int(np.log(alpha / 2) / np.log1p(-share)) + 1)
    return count if count <= MOST else None


def contributions(gains: Floats, clusters: npt.ArrayLike | None = None, weights: Floats | None = None) -> Floats:
    """Return what each independent unit contributes to the mean of each row of gains ``(m, n)``: ``(m, k)``.

    Their mean is the weighted mean of the row's numbers, and their spread gives its standard error, to first order if
    units differ in size. NaN in `gains` is left out; a row has NaN for a cluster in which it has no number. `clusters`:
    the name of each column's cluster ``(n,)``, `weights`: how much each column counts ``(n,)``.
    """
    codes, k = coded(np.arange(gains.shape[1]) if clusters is None else clusters)
    finite = ~np.isnan(gains)
    counted = finite * (1.0 if weights is None else np.asarray(weights, dtype=np.float64))
    sums = _by_cluster(np.where(finite, gains, 0.0) * counted, codes, k)
    sizes = _by_cluster(counted, codes, k)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums.sum(axis=1, keepdims=True) / sizes.sum(axis=1, keepdims=True)
        size = sizes.sum(axis=1, keepdims=True) / (sizes > 0).sum(axis=1, keepdims=True)
        return np.asarray(np.where(sizes > 0, mean + (sums - sizes * mean) / size, np.nan))


def _by_cluster(rows: Floats, codes: npt.NDArray[np.int64], k: int) -> Floats:
    """Return the sum of each cluster for rows ``(m, n)``: ``(m, k)``."""
    if len(codes) == k:
        return rows
    return np.array([np.bincount(codes, row, k) for row in rows]).reshape(len(rows), k)


def differences(
    gains: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    weights: Floats | None = None,
    *,
    against: Callable[[int], Floats] | None = None,
    alpha_and_range: tuple[float, float] | None = None,
    limit: float = np.inf,
    nearest: Floats | None = None,
    resamples: int = RESAMPLES,
) -> Differences:
    """Return all entries against each other; `gains` ``(entries, n)`` by unit, more is better, NaN where there is none.

    Each pair is compared over the units that both have; an entry without any number takes no part. `clusters`: the name
    of each unit's cluster ``(n,)``, which counts once; without them every unit is one. `weights`: how much each unit
    counts ``(n,)``, above 0. `against`: returns the advantage of an entry over each ``(entries, n)``, if that is not
    the difference of `gains`. `alpha_and_range`: both, if an earlier call computed them. `limit`: see
    `Intervals`. `nearest`: for each entry, how near two numbers are that rounding may part ``(entries,)``, see
    `imharness.statistics.wilcoxon.resolution`; of a pair the larger one counts.
    """
    x = np.asarray(gains, dtype=np.float64)
    unit_values, size = contributions(x, clusters, weights), len(x)
    value, error = np.full((2, size, size), np.nan)
    units = np.zeros((size, size), dtype=np.int64)
    gaps = bool(np.isnan(x[~np.isnan(x).all(axis=1)]).any())
    for i in range(size):
        if against is not None:
            rows = contributions(against(i), clusters, weights)
        elif gaps:
            rows = contributions(x[i] - x, clusters, weights)
        else:
            rows = unit_values[i] - unit_values
        value[i], error[i], units[i] = moments(rows, 0.0 if nearest is None else np.maximum(nearest, nearest[i]))
    np.fill_diagonal(value, np.nan)
    np.fill_diagonal(units, 0)
    alpha, value_range = alpha_and_range or (alpha_of(unit_values, resamples=resamples), _value_range(unit_values))
    return Differences(value, error, units, alpha, value_range, limit=limit)


def moments(unit_values: Floats, nearest: npt.ArrayLike = 0.0) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Return the mean of each row ``(m, k)``, its standard error, and the number of its units; NaN is left out.

    `nearest`: how near two numbers of a row are that may be equal, one number or ``(m,)``. Rows that vary by no more
    have a standard error of 0: what varies there is the rounding of scores as they are stored.
    """
    finite = ~np.isnan(unit_values)
    units = finite.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(finite, unit_values, 0.0).sum(axis=1) / units
        off = np.where(finite, unit_values - value[:, None], 0.0)
        error = np.sqrt((off**2).sum(axis=1) / (units * (units - 1.0)))
    largest = np.abs(np.where(finite, unit_values, 0.0)).max(axis=1, initial=0.0)
    rounding = np.maximum(_SAME * largest, np.asarray(nearest, dtype=np.float64))
    return value, np.where(np.abs(off).max(axis=1, initial=0.0) <= rounding, 0.0, error), units


def _value_range(unit_values: Floats) -> float:
    """Return the largest difference of two numbers of one unit, or the largest size of a number if no two differ."""
    measured = unit_values[:, ~np.isnan(unit_values).all(axis=0)]
    if not measured.size:
        return 0.0
    largest_difference = float((np.nanmax(measured, axis=0) - np.nanmin(measured, axis=0)).max())
    return largest_difference or float(np.nanmax(np.abs(measured)))


def alpha_of(unit_values: Floats, *, resamples: int = RESAMPLES) -> float:
    """Return the two-sided level of one interval at which those of all pairs cover at once; see the module.

    `unit_values`: `contributions` of entries ``(m, k)``. A unit for which an entry has no number counts as its mean.
    """
    unit_values = unit_values[~np.isnan(unit_values).all(axis=1)]
    m, k = unit_values.shape
    count = m * (m - 1) // 2
    alone: float = 1 - LEVEL
    if count < 1:
        return alone
    bonferroni: float = alone / count
    if m > MANY or k < FEWEST:
        return bonferroni
    deviations = centred(unit_values)
    if not deviations.any():
        return bonferroni
    if k > BATCHES:
        deviations, k = batched(deviations), BATCHES
    largest = np.concatenate([_largest(draw) for draw in smoothed(deviations.T, count, resamples)])
    alpha = 2 * float(scipy.special.stdtr(k - 1, -np.quantile(largest, LEVEL)))
    return min(max(alpha, bonferroni / 4), alone)


def centred(unit_values: Floats) -> Floats:
    """Return contributions ``(m, k)`` minus the mean of each row, then minus that of each column.

    A column's mean is what all entries have in common on a unit; it cancels in their differences.
    """
    off = np.nan_to_num(unit_values - np.nanmean(unit_values, axis=1, keepdims=True))
    return np.asarray(off - off.mean(axis=0))


def batched(off: Floats) -> Floats:
    """Return centred contributions ``(m, k)`` summed into batches ``(m, BATCHES)``, scaled as if each were one unit."""
    batch = np.arange(off.shape[1]) % BATCHES
    sums = np.array([np.bincount(batch, row, BATCHES) for row in off])
    return sums / np.sqrt(np.bincount(batch))


def smoothed(off: Floats, count: int, resamples: int) -> Iterator[Floats]:
    """Yield smoothed resamples ``(r, k, m)`` of centred contributions ``(k, m)``, in batches.

    `count`: of how many comparisons; more of them are smoothed more.
    """
    k, m = off.shape
    root = np.linalg.cholesky(_shrunk(off))
    h = min((SMOOTH + DEEPER * np.log(count)) / k, 1.0)
    scaled = off * np.sqrt((1 - h) * k / (k - 1))
    step = max(1, _AT_ONCE // (m * (k + m)))
    batches = _reused_draws(k, m, resamples) if step >= resamples else _draws(k, m, resamples, step)
    for picked, noise in batches:
        yield scaled[picked] + np.sqrt(h) * noise @ root.T


def _draws(k: int, m: int, resamples: int, step: int) -> Iterator[tuple[npt.NDArray[np.int64], Floats]]:
    """Yield the units of resamples ``(r, k)`` and standard normal noise ``(r, k, m)``, in batches of `step`."""
    rng = np.random.default_rng(0)
    for start in range(0, resamples, step):
        r = min(step, resamples - start)
        yield rng.integers(0, k, (r, k)), rng.standard_normal((r, k, m))


@lru_cache(maxsize=2)
def _reused_draws(k: int, m: int, resamples: int) -> list[tuple[npt.NDArray[np.int64], Floats]]:
    """Return `_draws` in one batch; cached, as many columns of a leaderboard have equally many units and entries."""
    return list(_draws(k, m, resamples, resamples))


def _shrunk(off: Floats) -> Floats:
    """Return the covariance ``(m, m)`` of centred ``(k, m)`` with correlations shrunk towards 0; positive definite.

    They shrink by the share that is the sum of their variances over the sum of their squares, but at most 1 (Schäfer
    and Strimmer, equation 10).
    """
    k, m = off.shape
    covariance = off.T @ off / (k - 1)
    scale = np.sqrt(np.diag(covariance))
    z = off / np.where(scale > 0, scale, 1.0)
    mean_product = z.T @ z / k
    variance = k / (k - 1) ** 3 * ((z**2).T @ z**2 - k * mean_product**2)
    off_diagonal = ~np.eye(m, dtype=bool)
    sum_of_squares = ((mean_product[off_diagonal] * k / (k - 1)) ** 2).sum()  # of the correlations
    share = min(1.0, float(variance[off_diagonal].sum() / sum_of_squares)) if sum_of_squares > 0 else 1.0
    covariance[off_diagonal] *= 1 - share
    return np.asarray(covariance + 1e-9 * np.trace(covariance) / m * np.eye(m))


def _largest(draw: Floats) -> Floats:
    """Return the largest |t| of all pairs of each resample ``(r, k, m)``, which are centred in place."""
    mean, spread = _pairs(draw)
    square = (mean[:, :, None] - mean[:, None, :]) ** 2
    square /= spread
    return np.asarray(np.sqrt(square.max(axis=(1, 2))))


def largest_ahead(draw: Floats) -> Floats:
    """Return, for each entry, the largest t of another one against it ``(r, m)``.

    `draw`: resamples ``(r, k, m)``, which are centred in place.
    """
    mean, spread = _pairs(draw)
    t = mean[:, :, None] - mean[:, None, :]
    t /= np.sqrt(spread)
    return np.asarray(t.max(axis=1))


def _pairs(draw: Floats) -> tuple[Floats, Floats]:
    """Return the means ``(r, m)`` and the squared errors of the differences of all pairs, 1 of an entry with itself."""
    k, mean = draw.shape[1], draw.mean(axis=1)
    draw -= mean[:, None]
    spread = draw.transpose(0, 2, 1) @ draw
    spread /= k * (k - 1)
    variances = np.einsum("rii->ri", spread).copy()
    spread *= -2
    spread += variances[:, :, None]
    spread += variances[:, None, :]
    np.einsum("rii->ri", spread)[:] = 1.0
    return np.asarray(mean), np.asarray(spread)
