"""Do published and our numbers put the same entries in the same order?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import Floats, drawn, percentiles_within
from imharness.statistics.correlation import correlate, kendall_rows

ALPHA = 0.05
FEWEST = 5
"""With fewer entries than this, even the same order could be chance: 2 of the 24 orders of four."""
SAYS = ("same order", "reversed", "undecided", "too few entries")
ENUMERATED = 7
"""With at most this many entries, p counts all orders; scipy's test is approximate if values are tied."""


@dataclass(frozen=True)
class Order:
    """Kendall's tau-b of n entries, its 95 % interval, and the two-sided p-value that the orders are unrelated.

    `low` and `high` are None if there are fewer than `FEWEST` entries. `says` is one of `SAYS`: "undecided" if p is
    above `ALPHA`, or if there is no tau for the `reason`.
    """

    entries: tuple[str, ...]
    tau: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    reason: str = ""

    @property
    def n(self) -> int:
        """The number of entries."""
        return len(self.entries)

    @property
    def says(self) -> str:
        """The conclusion from the order, one of `SAYS`."""
        if self.n < FEWEST:
            return "too few entries"
        if self.tau is None or self.p is None or self.p > ALPHA:
            return "undecided"
        return "same order" if self.tau > 0 else "reversed"


def order_of(entries: Sequence[str], published: Sequence[float], ours: Sequence[float]) -> Order:
    """Return how similarly two lists of numbers order the entries.

    The interval has the percentiles of resampled entries, widened for few entries (see `bootstrap`). p is exact: by
    enumeration up to `ENUMERATED` entries, and up to 33, as scipy computes it, if no values are tied.
    """
    x, y = np.asarray(published, dtype=np.float64), np.asarray(ours, dtype=np.float64)
    names = tuple(entries)
    try:
        correlation = correlate(x, y, "kendall")
    except NotTestable as error:
        return Order(names, reason=str(error))
    p = _enumerated(x, y) if len(x) <= ENUMERATED else correlation.p_value

    low, high = _resampled(x, y)
    return Order(names, correlation.value, low, high, p)


def _resampled(x: Floats, y: Floats) -> tuple[float | None, float | None]:
    """Return the interval of tau-b over resampled entries, or (None, None) if it is not defined.

    tau-b is a sum over pairs of entries; a pair counts as often as both of its entries are drawn. A resample of entries
    that are all tied in one of the two lists has no tau-b, and counts as one that may have any.
    """
    sign_x, sign_y = (np.sign(np.subtract.outer(values, values)) for values in (x, y))  # (n, n): the order of each pair
    counts = np.concatenate(list(drawn(len(x))))  # (resamples, n): how often each entry is drawn

    def weighted_sum(pairs: Floats) -> Floats:
        return np.asarray(((counts @ pairs) * counts).sum(axis=1))

    concordance, untied_x, untied_y = weighted_sum(sign_x * sign_y), weighted_sum(sign_x**2), weighted_sum(sign_y**2)
    untied = untied_x * untied_y
    taus = np.divide(concordance, np.sqrt(untied), out=np.full(len(untied), np.nan), where=untied > 0)
    low, high = percentiles_within(taus, (-1.0, 1.0), len(x))
    return (low, high) if np.isfinite(low) else (None, None)


def _enumerated(x: Floats, y: Floats) -> float:
    """Return the share of all orders of y whose tau-b is at least as far from zero as the observed one."""
    orders = np.array(list(itertools.permutations(range(len(y)))))
    taus = kendall_rows(np.broadcast_to(x, orders.shape), y[orders])
    observed = kendall_rows(x[None], y[None])[0]
    return float(np.mean(np.abs(taus) >= abs(observed) - 1e-12))
