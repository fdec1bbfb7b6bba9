"""Means over splits with their intervals, where splits may share pools of rows and reference models."""

from collections.abc import Iterable

import numpy as np

from imharness.leaderboard import Blocks, Value, missing, nested_interval, t_interval, value_of
from imharness.tracks import Query

SHARE = (0.0, 1.0)
"""Where intervals of shares, rates and areas end."""
ROUNDING = 1e-12
"""Numbers that differ by no more than this are equal."""
POOL, DATASET = "pool", "dataset"
"""Facts of a split: the pool of rows that it shares, and its data set."""
SPLITS = (
    "Intervals are Student's t over splits, because all tasks of a split share its rows; where all splits give the "
    "same number, there is none. Two splits share up to a third of their rows, so they are not quite independent."
)
POOLED = (
    "Splits of one pool have the same rows and reference models. So the interval of a mean adds the variance of pools "
    "to that of splits within them, and says what to expect on new records; two pools of one data set are too few for "
    "one. Differences of entries, gates and tests take splits as independent: they are about other members among the "
    "same records, and for new records a little too sure (95% intervals of a difference over 16 splits of three pools "
    "held 93.5 to 94.7% of the truths in a simulation). Of the splits on which an evaluator is chosen, those of the "
    "same pool are left out."
)
"""What intervals mean where splits share pools, in the words of captions."""


def pools_of(query: Query) -> dict[str, str]:
    """Return split -> the pool of rows and reference models that it shares; empty where each split has its own."""
    if "pool" not in query("SELECT * FROM train_tasks LIMIT 0"):
        return {}
    columns = query(
        "SELECT DISTINCT CAST(split AS VARCHAR) AS split, CAST(pool AS VARCHAR) AS pool FROM train_tasks "
        "WHERE pool IS NOT NULL AND role = 'target'"
    )
    return {str(split): str(pool) for split, pool in zip(columns["split"], columns["pool"], strict=True)}


def said_of(figures: Blocks) -> str:
    """Return what intervals over the splits of these figures mean, in the words of captions."""
    return f"{SPLITS} {POOLED}" if POOL in figures.about else SPLITS


def pools_among(figures: Blocks) -> np.ndarray | None:
    """Return the pool of each split ``(splits,)``; None where each split has rows of its own."""
    return figures.about[POOL][0] if figures.about.get(POOL) else None


def mean_of(numbers: Iterable[np.ndarray]) -> np.ndarray:
    """Return the mean of arrays ``(splits,)`` without NaN; a split that has only NaN stays NaN."""
    stacked = np.stack(list(numbers))
    counts = (~np.isnan(stacked)).sum(axis=0)
    return np.divide(np.nansum(stacked, axis=0), counts, out=np.full(len(counts), np.nan), where=counts > 0)


def differ(numbers: np.ndarray) -> bool:
    """Return whether numbers differ by more than rounding."""
    return bool(np.ptp(numbers) > ROUNDING)


def mean_over_splits(numbers: np.ndarray, pools: np.ndarray | None = None, datasets: np.ndarray | None = None) -> Value:
    """Return the mean of numbers ``(splits,)`` with Student's t interval; equal numbers have no interval.

    With `pools` ``(splits,)``, which splits share, the interval is that of `imharness.leaderboard.nested_interval`,
    within `datasets` ``(splits,)`` if pools are of several.

    Splits are few, and each has networks of its own: splits are the repetitions, not rows. Each draws at most a third
    of the same data set as the target's rows, so that two splits share rows and are not quite independent. Where all
    splits give the same number, often a rate of zero, an interval of no width would claim certainty.
    """
    mean = value_of(t_interval(numbers) if pools is None else nested_interval(numbers, pools, datasets))
    return mean if differ(numbers) else Value(value=mean.value, n=mean.n)


def over_splits(
    shares: np.ndarray,
    reason: str = "no task",
    pools: np.ndarray | None = None,
    datasets: np.ndarray | None = None,
) -> Value:
    """Return the mean of shares ``(splits,)`` with its interval over splits within [0, 1]; NaN is left out."""
    defined = ~np.isnan(shares)
    if not defined.any():
        return missing(reason)
    groups, strata = (None if labels is None else labels[defined] for labels in (pools, datasets))
    mean = mean_over_splits(shares[defined], groups, strata)
    ends = (mean.low, mean.high)
    low, high = (None if end is None else float(np.clip(end, 0, 1)) for end in ends)
    return Value(value=mean.value, n=mean.n, low=low, high=high)
