"""Per-image numbers -> values and matrices of a `Table`. Imports no torch."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from imharness.documents.report import PairedScores
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import Interval, mean_interval
from imharness.statistics.clusters import FEWEST
from imharness.statistics.wilcoxon import fewest_units
from imharness.statistics.win_rates import ALPHA, WinRates


def value_of(interval: Interval) -> Value:
    """Return a value of a table with n and the confidence interval; one unit, or too few clusters, have no interval.

    Nor do units that all have the same number: an interval of no width would claim certainty.
    """
    bounded = interval.n > 1 and not math.isnan(interval.low) and interval.low < interval.high
    ends = {"low": interval.low, "high": interval.high} if bounded else {}
    return Value(value=interval.value, n=interval.n, clusters=interval.clusters, **ends)


def mean_value(numbers: npt.ArrayLike, clusters: npt.ArrayLike | None = None) -> Value:
    """Return the mean as a value of a table; infinite and NaN numbers are left out, and its n counts the others.

    `clusters`: the name of each number's cluster, which are resampled as a whole; without them numbers are independent.
    """
    values = np.asarray(numbers, dtype=np.float64)
    finite = np.isfinite(values)
    if not finite.any():
        return Value(missing="no finite value")
    return value_of(mean_interval(values[finite], None if clusters is None else np.asarray(clusters)[finite]))


def missing(reason: str | NotTestable) -> Value:
    """Return a value without a number, with its reason."""
    return Value(missing=str(reason))


def win_table(paired: PairedScores) -> Table:
    """Return the win-rate matrix as a table: how often the row beats the column, in percent of conditions.

    Where no test could succeed, however large the difference, the values say how many units it takes.
    """
    labels, wins = paired.entries, paired.rates
    what = paired.unit if not paired.clusters else (paired.cluster_unit or "source")
    most = paired.most
    needed = max(fewest_units(wins.comparisons, ALPHA), FEWEST if paired.clusters else 0)
    few = f"needs at least {needed} {what}s, and has {most}" if wins.comparisons and most < needed else ""
    sources = f"{what}s" if paired.clusters else ""
    columns = tuple(
        ColumnSpec(
            key=label,
            label=label,
            description=f"Share of conditions won against {label}, %.",
            decimals=0,
            unit="condition",
        )
        for label in labels
    )
    rows = tuple(
        Row(label=label, values={column.key: _won(wins, i, j, sources, few) for j, column in enumerate(columns)})
        for i, label in enumerate(labels)
    )
    separated = int(paired.differences.better.sum())
    merged = len(paired.tested) < len(paired.conditions)
    pooled = f" Conditions that differ in {' and '.join(paired.pooled)} alone are one." if merged else ""
    caption = (
        f"Percentage of conditions in which the row beats the column: {paired.about}.{pooled} One-sided Wilcoxon "
        f"signed-rank test{f' over the means of {sources}' if sources else ''}, alpha {ALPHA:g}, corrected by Holm "
        f"over {wins.comparisons} tests, each entry against each other one in each condition; differences of 0 are "
        f"left out. The smallest p that {most} {what}s can have after correction is "
        f"{min(1.0, wins.comparisons * 0.5**most):.2g}. Over all conditions together, the simultaneous intervals of "
        f"the leaderboard separate {separated} of {len(labels) * (len(labels) - 1) // 2} pairs."
    )
    return Table(
        id=paired.id, title=paired.title, caption=caption, entry=paired.entry, columns=columns, rows=rows, shading=100.0
    )


def _won(wins: WinRates, i: int, j: int, sources: str, few: str) -> Value:
    if i == j:
        return missing("the same entry")
    if wins.tested[i, j] == 0:
        return missing("not testable: no differing pairs" + (f", or fewer than {FEWEST} {sources}" if sources else ""))
    return missing(few) if few else Value(value=float(wins.rate[i, j]), n=int(wins.tested[i, j]))
