"""Per-image numbers -> cells and matrices of a `Table`. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from imharness.results.records import ColumnSpec, Row, Table, Value
from imharness_statistics import NotTestable
from imharness_statistics.bootstrap import Interval, mean_interval
from imharness_statistics.win_rates import ALPHA, WinRates


def value_of(interval: Interval) -> Value:
    """Return a table cell with n and, where there is one, the confidence interval."""
    ends = {} if math.isnan(interval.low) else {"low": interval.low, "high": interval.high}
    return Value(value=interval.value, n=interval.n, clusters=interval.clusters, **ends)


def mean_value(numbers: npt.ArrayLike, clusters: npt.ArrayLike | None = None) -> Value:
    """Return the mean as a cell; infinite and NaN numbers are left out and the n that is left is shown.

    `clusters`: the name of each number's cluster, which are resampled as a whole; without them numbers are independent.
    """
    given = np.asarray(numbers, dtype=np.float64)
    finite = np.isfinite(given)
    if not finite.any():
        return Value(missing="no finite value")
    return value_of(mean_interval(given[finite], None if clusters is None else np.asarray(clusters)[finite]))


def missing(reason: str | NotTestable) -> Value:
    """Return an empty cell with its reason."""
    return Value(missing=str(reason))


def win_table(id: str, title: str, entry: str, labels: Sequence[str], wins: WinRates, about: str) -> Table:
    """Return a win-rate matrix as a table: how often the row beats the column, in percent of conditions."""
    columns = tuple(
        ColumnSpec(key=f"c{j}", label=label, description=f"Share of conditions won against {label}, %.", decimals=0)
        for j, label in enumerate(labels)
    )
    rows = []
    for i, label in enumerate(labels):
        cells = {}
        for j in range(len(labels)):
            rate = wins.rate[i, j]
            if i == j:
                cells[f"c{j}"] = Value(missing="the same entry")
            elif np.isnan(rate):
                cells[f"c{j}"] = Value(missing="not testable: no differing pairs")
            else:
                cells[f"c{j}"] = Value(value=float(rate), n=int(wins.tested[i, j]))
        rows.append(Row(label=label, values=cells))
    caption = (
        f"Percentage of conditions in which the row beats the column: {about}. One-sided Wilcoxon signed-rank test, "
        f"alpha {ALPHA:g}, Bonferroni-corrected over {wins.comparisons} comparisons."
    )
    return Table(id=id, title=title, caption=caption, entry=entry, columns=columns, rows=tuple(rows), shading=100.0)
