"""Turns the answers of a model into probabilities that sum to 1: logits, and rounded or cut probabilities.

Numbers in [0, 1] are never taken for logits, whatever their rows sum to. An interface that rounds, or that names only
the top classes, gives rows that do not sum to 1; a softmax of these would turn 0.99 into 0.23.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.errors import UsageError

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
BEYOND = 1e-3
"""How far a probability may lie outside [0, 1], because of a model's arithmetic."""
CLOSE = 1e-4
"""Rows whose sum differs from 1 by at most this are not changed."""
NEARLY = 1e-3
"""The largest difference from 1 of the sum of a row that was not rounded."""
COARSE = 2.0**-4
"""The relative error of the coarsest floating-point numbers in use, of 8 bits with 3 for the mantissa."""
DECIMALS = (1, 2, 3, 4)
"""The numbers of decimals to which probabilities may be rounded."""
ALIKE = 0.02
"""If the sums of all rows differ by at most this share of their mean, rows are shares in another unit, as percents."""


def probabilities_of(outputs: Array, where: str, logits: bool | None = None) -> tuple[Floats, str]:
    """Return probabilities float32 ``(n, classes)`` that sum to 1, and a sentence on how they were changed, or "".

    Args:
        outputs: numbers ``(n, classes)``.
        where: their name in messages.
        logits: whether the user says that they are logits; None: they may be either.

    Raises:
        UsageError: they are neither probabilities nor logits; the message names the row.
    """
    return summing_to_1(shares_of(outputs, where, logits), where)


def shares_of(outputs: Array, where: str, logits: bool | None = None) -> Floats:
    """Return numbers in [0, 1], float32 ``(n, classes)``: the outputs as they are, or the softmax of logits.

    Arguments and errors are those of `probabilities_of`.
    """
    if outputs.ndim != 2 or outputs.shape[1] < 2 or outputs.dtype.kind not in "iuf":
        raise UsageError(
            f"{where} must be numbers (rows, classes) with at least 2 classes, got {outputs.dtype} {outputs.shape}."
        )
    if len(outputs) == 0:
        raise UsageError(f"{where} has no rows.")
    exact = outputs.astype(np.float64)
    refuse_rows(f"{where}, row", (np.isnan(exact) | (exact == np.inf)).any(axis=1), "holds NaN or infinity")
    outside = ((exact < -BEYOND) | (exact > 1 + BEYOND)).any(axis=1)
    if not outside.any():
        if logits:
            raise UsageError(
                f"{where} lie in [0, 1], which logits do not: they are probabilities, so leave --logits out."
            )
        return np.clip(outputs, 0, 1).astype(np.float32)
    totals = exact.sum(axis=1)
    if (exact >= 0).all() and np.ptp(totals) <= ALIKE * totals.mean():
        raise UsageError(
            f"{where}: all rows sum to about {totals.mean():.3g}; divide them by it, so that they sum to 1."
        )
    if logits is False:
        refuse_rows(
            f"{where}, row",
            outside,
            "is outside [0, 1]; if these are logits, apply a softmax first (the command has --logits)",
        )
    refuse_rows(f"{where}, row", (exact == -np.inf).all(axis=1), "holds no finite number")
    weights = np.exp(exact - exact.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


def summing_to_1(shares: Floats, where: str) -> tuple[Floats, str]:
    """Return numbers in [0, 1] so changed that rows sum to 1, and a sentence on how they were changed, or "".

    In a row that was cut to its top classes, the missing rest is spread evenly over the classes with 0. Another row is
    divided by its sum, if rounding explains the sum. Raises `UsageError` for a row whose sum nothing explains.
    """
    totals, classes = shares.sum(axis=1, dtype=np.float64), shares.shape[1]
    off = np.abs(totals - 1) > CLOSE
    if not off.any():
        return shares, ""
    step = _step(shares)
    rounding = max(NEARLY, _relative_step(shares), min(classes * step / 2, 1.0))  # the largest error of a sum
    zeros = (shares == 0).sum(axis=1)
    # 1. Rows that were cut: a class that was cut off has at most the smallest probability that was answered.
    missing_each = (1 - totals) / np.maximum(zeros, 1)
    smallest = np.where(shares > 0, shares, np.inf).min(axis=1)
    most = np.where(np.isfinite(smallest), smallest, 0) + step + NEARLY
    cut = off & (totals < 1) & (zeros > 0) & (missing_each <= most)
    # 2. Other rows must have a sum that rounding explains; decimals that are cut off err twice as much.
    rounded = off & ~cut
    unexplained = (totals > 1 + rounding) | (totals < 1 - 2 * rounding) | (totals == 0)
    refuse_rows(
        f"{where}, row",
        rounded & unexplained,
        "does not sum to 1, nor as rounded probabilities or the top classes do; give a probability of each class",
        totals,
    )
    # 3. Change both.
    changed = np.where(rounded[:, None], shares / np.where(totals > 0, totals, 1)[:, None], shares)
    changed = np.where(cut[:, None] & (shares == 0), missing_each[:, None], changed).astype(np.float32)
    how = []
    if rounded.any():
        how.append(f"{rounded.sum()} were divided by their sum")
    if cut.any():
        how.append(f"{cut.sum()} were completed: what was missing was spread evenly over the classes with 0")
    return changed, (
        f"{where}: {off.sum()} of {len(shares)} rows sum to {totals[off].min():.4g} to {totals[off].max():.4g} and not "
        f"to 1, as rounded answers and those of the top classes do; {' and '.join(how)}."
    )


def _step(shares: Floats) -> float:
    """Return the step of the decimals to which all numbers are rounded, such as 0.01; 0 if they are not rounded."""
    inner = shares[(shares > 0) & (shares < 1)].astype(np.float64)
    for decimals in DECIMALS:
        scaled = inner * 10**decimals
        if len(inner) and bool((np.abs(scaled - np.rint(scaled)) < 1e-2).all()):
            return float(10.0**-decimals)
    return 0.0


def _relative_step(shares: Floats) -> float:
    """Return the relative step of the floating-point type in which all numbers are exact, such as 2^-7 for bfloat16.

    It is at most `COARSE`.
    """
    bits = int(np.bitwise_or.reduce(shares.ravel().view(np.uint32)) & 0x7FFFFF)
    return min(COARSE, (bits & -bits) / 2**23 if bits else 1.0)


def refuse_rows(where: str, bad: npt.ArrayLike, what: str, values: Array | None = None) -> None:
    """Raise `UsageError` that names the first bad row, its value, and how many more there are."""
    rows = np.flatnonzero(bad)
    if len(rows):
        value = "" if values is None else f": {values[rows[0]]:g}"
        more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
        raise UsageError(f"{where} {rows[0]} {what}{value}{more}.")
