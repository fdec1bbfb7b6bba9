"""Correlation with p-values; for a constant vector it is not testable, with the reason, and never 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable

Method = Literal["spearman", "kendall", "pearson"]
_TESTS = {"spearman": "spearmanr", "kendall": "kendalltau", "pearson": "pearsonr"}
NEEDED = {"spearman": 3, "kendall": 2, "pearson": 3}


@dataclass(frozen=True)
class Correlation:
    """Coefficient in [-1, 1], two-sided p-value, number of pairs."""

    value: float
    p_value: float
    n: int


def correlate(x: npt.ArrayLike, y: npt.ArrayLike, method: Method) -> Correlation:
    """Return the correlation of two vectors as scipy computes it (Kendall: tau-b).

    Raises `NotTestable` for NaN, infinity, a constant vector, or too few pairs.
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(a) < NEEDED[method]:
        raise NotTestable(f"{method} needs {NEEDED[method]} pairs, got {len(a)}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise NotTestable("NaN or infinity among the values")
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        raise NotTestable("one of the vectors is constant")
    result = getattr(scipy.stats, _TESTS[method])(a, b)
    return Correlation(float(result.statistic), float(result.pvalue), len(a))


def spearman_rows(values: npt.ArrayLike, reference: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return Spearman's rho ``(k,)`` of each row of ``(k, n)`` with one vector ``(n,)`` or with its own row ``(k, n)``.

    NaN where one of the two is constant or has a NaN.
    """
    return _cosines(*(_centred(scipy.stats.rankdata(_rows(x), axis=1)) for x in (values, reference)))


def pearson_rows(values: npt.ArrayLike, reference: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return Pearson's r ``(k,)``; arguments and NaN as in `spearman_rows`."""
    return _cosines(*(_centred(_rows(x)) for x in (values, reference)))


def kendall_rows(values: npt.ArrayLike, reference: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return Kendall's tau-b ``(k,)``; arguments and NaN as in `spearman_rows`. Memory grows with k n^2."""
    return _cosines(*(_pair_signs(_rows(x)) for x in (values, reference)))


def _pair_signs(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    first, second = np.triu_indices(rows.shape[1], 1)
    return np.sign(rows[:, first] - rows[:, second])


def williams(first: float, second: float, between: float, n: int) -> float:
    """Return the two-sided p-value that two variables correlate equally with a third, over the same n cases.

    `first` and `second`: correlations of the two with the third; `between`: of the two with each other. Williams (1959)
    as given by Steiger, "Tests for comparing elements of a correlation matrix" (Psychological Bulletin 1980), equation
    7: Student's t with n - 3 degrees of freedom. Raises `NotTestable` for n < 4, and if the two are the same.
    """
    if n < 4:
        raise NotTestable(f"Williams' test needs 4 cases, got {n}")
    if not np.isfinite([first, second, between]).all() or abs(between) > 1 - 1e-12:
        raise NotTestable("the two variables rank alike, or a correlation is not defined")
    determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
    mean = (first + second) / 2
    spread = 2 * (n - 1) / (n - 3) * max(determinant, 0.0) + mean**2 * (1 - between) ** 3
    if spread <= 0:
        raise NotTestable("the correlations leave nothing to chance")
    t = (first - second) * np.sqrt((n - 1) * (1 + between) / spread)
    return float(2 * scipy.stats.t.sf(abs(t), n - 3))


def _rows(x: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.atleast_2d(np.asarray(x, dtype=np.float64))


def _centred(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Subtract each row's mean; a constant row becomes exact zeros, which rounding would spoil."""
    constant = np.ptp(rows, axis=1, keepdims=True) == 0
    return np.where(constant, 0.0, rows - rows.mean(axis=1, keepdims=True))


def _cosines(rows: npt.NDArray[np.float64], others: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    norm = np.sqrt((rows**2).sum(axis=1) * (others**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(norm > 0, (rows * others).sum(axis=1) / norm, np.nan)
