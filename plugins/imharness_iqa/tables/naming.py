"""Names of units, compared once for each array of them, however many conditions share it."""

from collections.abc import Iterable, Sequence

import numpy as np

Where = tuple[np.ndarray, np.ndarray] | None
"""Positions in an array of names of those that are among all, and their positions there; None if both are equal."""


def apart(arrays: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Return the arrays; the same object only once."""
    return list({id(array): array for array in arrays}.values())


class Some:
    """Chooses from arrays, and keeps each result, to return the same object for the same choice from the same array.

    Keys are ids of arrays; each array is kept beside its result, so that no other one gets its id.
    """

    def __init__(self) -> None:
        self._results: dict[tuple[int, bytes], tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, array: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return ``array[chosen]``, by a mask or positions ``(n,)``; the array itself where a mask keeps all of it."""
        if chosen.dtype == bool and chosen.all():
            return array
        key = id(array), chosen.tobytes()
        if key not in self._results:
            self._results[key] = array, array[chosen]
        return self._results[key][1]


class Naming:
    """Looks names up, and keeps each pair of arrays with the result, as `Some` does."""

    def __init__(self) -> None:
        self._joined: dict[tuple[int, ...], tuple[Sequence[np.ndarray], np.ndarray]] = {}
        self._results: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, Where]] = {}

    def joined(self, arrays: Iterable[np.ndarray]) -> np.ndarray:
        """Return all names ``(n,)``, sorted, each once, as text."""
        distinct = apart(arrays)
        key = tuple(map(id, distinct))
        if key not in self._joined:
            texts = [np.zeros(0, str), *(array.astype(str) for array in distinct)]
            self._joined[key] = distinct, np.unique(np.concatenate(texts))
        return self._joined[key][1]

    def where(self, names: np.ndarray, units: np.ndarray) -> Where:
        """Return where names ``(n,)`` stand among `units` ``(m,)``, which are text, sorted, each once."""
        key = id(names), id(units)
        if key not in self._results:
            self._results[key] = names, units, _where(names.astype(str), units)
        return self._results[key][2]


def _where(names: np.ndarray, units: np.ndarray) -> Where:
    if np.array_equal(names, units):
        return None
    at = np.searchsorted(units, names)
    positions = np.flatnonzero(units[np.minimum(at, len(units) - 1)] == names) if len(units) else np.zeros(0, dtype=int)
    return positions, at[positions]
