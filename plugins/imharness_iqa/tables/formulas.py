"""Formulas of the measures of defended attacked images, from stored scores and distances.

`imharness_iqa.tables.data` describes the measures.
"""

from collections.abc import Callable, Mapping

import numpy as np

Columns = Mapping[str, np.ndarray]
"""Name -> numbers under one condition: measures ``(entries, units)`` and facts ``(units,)``."""
EPS = 1e-6
"""Keeps R finite where a score does not change."""
IDENTICAL = 1e-16
"""Images with a mean squared error up to this count as identical; `harness/psnr` is at most 160 dB."""


def _moved(columns: Columns, reference: str = "source") -> tuple[np.ndarray, np.ndarray]:
    """Return D and R against a column of reference scores."""
    return moved(columns["score"], columns[reference], columns["lower"], columns["upper"])


def _change(columns: Columns, reference: str = "source") -> np.ndarray:
    """Return D, %, against a column of reference scores."""
    return 100 * _share(columns["score"], columns[reference].astype(float), columns["upper"] - columns["lower"])


def _ties(d: np.ndarray) -> np.ndarray:
    """Return 100 where the score did not move, else 0; NaN stays."""
    return np.where(np.isnan(d), np.nan, 100.0 * (d == 0))


def _but_ties(d: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return R, NaN where the score did not move."""
    return np.where(d == 0, np.nan, r)


FORMULAS: Mapping[str, Callable[[Columns], np.ndarray]] = {
    "mse": lambda columns: 1e3 * columns["mse"],
    "psnr": lambda columns: np.where(columns["mse"] <= IDENTICAL, np.nan, columns["psnr"]),
    "identical": lambda columns: np.where(np.isnan(columns["mse"]), np.nan, 100.0 * (columns["mse"] <= IDENTICAL)),
    "d": _change,
    "r": lambda columns: _moved(columns)[1],
    "dd": lambda columns: _change(columns, "defended"),
    "gain": lambda columns: (
        100 * columns["sign"] * (columns["score"] - columns["defended"]) / (columns["upper"] - columns["lower"])
    ),
    "rd": lambda columns: _moved(columns, "defended")[1],
    "ties": lambda columns: _ties(_change(columns)),
    "r_without_ties": lambda columns: _but_ties(*_moved(columns)),
}
"""Name of a measure -> the function that computes it from the columns of a condition, ``(entries, units)``."""


def moved(
    score: np.ndarray, reference: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return D and R of scores ``(entries, units)`` against reference scores; bounds ``(units,)``."""
    reference, span = reference.astype(float), upper - lower
    change = _share(score, reference, span)
    room = np.maximum(upper - reference, reference - lower) / span
    return 100 * change, np.log10(np.maximum(room, EPS) / (change + EPS))


def _share(score: np.ndarray, reference: np.ndarray, span: np.ndarray) -> np.ndarray:
    """Return the distance of a score from the reference, as a share of the range."""
    return np.asarray(np.abs(reference - score) / span)
