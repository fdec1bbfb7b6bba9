"""Looks up names of units once for each array of names: many conditions share one array, and comparing text is slow."""

from collections.abc import Iterable, Sequence

import numpy as np

Where = tuple[np.ndarray, np.ndarray] | None
"""Of the names of one array that are in another one: positions in the first array, and positions in the second.

None if both arrays are equal."""


def apart(arrays: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Return the distinct arrays: one that is passed several times, as the same object, only once."""
    return list({id(array): array for array in arrays}.values())


class Some:
    """Chooses elements of arrays; the same choice from the same array object gives the same object again.

    Results are stored by the `id` of the array. The array is stored, too: as long as it exists, no other one has its
    id.
    """

    def __init__(self) -> None:
        self._results: dict[tuple[int, bytes], tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, array: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return ``array[chosen]``, by a mask or positions ``(n,)``; for a mask without False, the array itself."""
        if chosen.dtype == bool and chosen.all():
            return array
        key = id(array), chosen.tobytes()
        if key not in self._results:
            self._results[key] = array, array[chosen]
        return self._results[key][1]


class Naming:
    """Joins arrays of names, and looks names up in an array; results are stored by array object, as `Some` does."""

    def __init__(self) -> None:
        self._joined: dict[tuple[int, ...], tuple[Sequence[np.ndarray], np.ndarray]] = {}
        self._results: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, Where]] = {}

    def joined(self, arrays: Iterable[np.ndarray]) -> np.ndarray:
        """Return all names of some arrays ``(n,)``, sorted, each once, as text."""
        distinct = apart(arrays)
        key = tuple(map(id, distinct))
        if key not in self._joined:
            texts = [np.zeros(0, str), *(array.astype(str) for array in distinct)]
            self._joined[key] = distinct, np.unique(np.concatenate(texts))
        return self._joined[key][1]

    def where(self, names: np.ndarray, units: np.ndarray) -> Where:
        """Return at which positions of `units` ``(m,)`` names ``(n,)`` stand; `units` are text, sorted, each once."""
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
