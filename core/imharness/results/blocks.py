"""Scores as arrays: one block ``(entries, units)`` for each condition and measure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Names = npt.NDArray[np.object_]


class Lazy(Sequence[Array]):
    """Arrays that are made each time one is asked for, so that they need not be in memory together."""

    def __init__(self, size: int, make: Callable[[int], Array]) -> None:
        self._size, self._make = size, make

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> list[Array]: ...
    def __getitem__(self, index: int | slice) -> Array | list[Array]:
        positions = range(self._size)[index]
        return self._make(positions) if isinstance(positions, int) else [self._make(i) for i in positions]


@dataclass(frozen=True)
class Blocks:
    """Scores of entries on units (images, choices, rows), condition by condition.

    `entries` are sorted, and `conditions` are sorted by their facets. ``units[c]`` are the sorted names of the units
    that any entry has in condition c, and ``about[fact][c]`` is a fact about each. ``values[measure][c]`` has shape
    ``(entries, units)`` and is NaN where an entry has no number.
    """

    entries: tuple[str, ...]
    conditions: tuple[Mapping[str, str], ...]
    units: tuple[Names, ...]
    values: Mapping[str, Sequence[Array]]
    about: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)

    def of(self, measure: str, entry: str, conditions: Sequence[int] | None = None) -> Array:
        """Return the numbers of an entry, condition after condition, in the order of the units; NaN is left out.

        `conditions` are positions among the conditions, in the order wanted; by default all of them in their order.
        """
        chosen = range(len(self.conditions)) if conditions is None else conditions
        rows = [self.values[measure][c][self.entries.index(entry)] for c in chosen]
        values: Array = np.concatenate(rows) if rows else np.zeros(0)
        return values[~np.isnan(values)]

    def once(self, measure: str, entry: str, conditions: Sequence[int] | None = None) -> npt.NDArray[np.float64]:
        """Return each unit's mean over the conditions, in the order of unit names; only finite numbers count."""
        return self.once_by("", measure, entry, conditions)[0]

    def once_by(
        self, cluster: str, measure: str, entry: str, conditions: Sequence[int] | None = None
    ) -> tuple[npt.NDArray[np.float64], Names]:
        """Return what `once` returns, and the cluster of each of these units as `clusters` names it."""
        chosen = range(len(self.conditions)) if conditions is None else conditions
        row, empty = self.entries.index(entry), np.zeros(0, object)
        values = np.concatenate([np.zeros(0), *(self.values[measure][c][row].astype(np.float64) for c in chosen)])
        names = np.concatenate([empty, *(self.units[c] for c in chosen)])
        groups = np.concatenate([empty, *(self.clusters(cluster, c) for c in chosen)])
        finite = np.isfinite(values)
        _, first, codes = np.unique(names[finite].astype(str), return_index=True, return_inverse=True)
        return np.asarray(np.bincount(codes, values[finite]) / np.bincount(codes)), groups[finite][first]

    def clusters(self, fact: str, condition: int) -> Names:
        """Return the cluster of each unit of a condition: the value of a fact, or the unit's name if there is none.

        Without a fact (""), every unit is a cluster of its own.
        """
        names = self.units[condition]
        if not fact:
            return names
        column = self.about[fact][condition].astype(object)
        blank = (
            np.equal(column, np.array(None, dtype=object)) | np.equal(column, "") | np.not_equal(column, column)
        )  # NaN is not equal to itself
        return np.where(blank, names, column.astype(str).astype(object))

    def where(self, **facets: str) -> list[int]:
        """Return the positions of the conditions with these facets."""
        return [
            c
            for c, condition in enumerate(self.conditions)
            if all(condition[name] == value for name, value in facets.items())
        ]

    def subset(self, conditions: Sequence[int]) -> Blocks:
        """Return only the given conditions, with the entries that have a number there."""
        some = np.zeros(len(self.entries), dtype=bool)
        for c, blocks in itertools.product(conditions, self.values.values()):
            some |= ~np.isnan(blocks[c]).all(axis=1)
        indices = np.flatnonzero(some)
        return Blocks(
            tuple(self.entries[i] for i in indices),
            tuple(self.conditions[c] for c in conditions),
            tuple(self.units[c] for c in conditions),
            {name: _rows(blocks, conditions, indices) for name, blocks in self.values.items()},
            {name: tuple(facts[c] for c in conditions) for name, facts in self.about.items()},
        )

    def masked(self, masks: Sequence[npt.NDArray[np.bool_]]) -> Blocks:
        """Return the units of each condition that a mask ``(units,)`` keeps."""
        return Blocks(
            self.entries,
            self.conditions,
            tuple(names[mask] for names, mask in zip(self.units, masks, strict=True)),
            {name: _columns(blocks, masks) for name, blocks in self.values.items()},
            {
                name: tuple(fact[mask] for fact, mask in zip(facts, masks, strict=True))
                for name, facts in self.about.items()
            },
        )

    def split(self, fact: str, facet: str) -> Blocks:
        """Return blocks in which each condition is split by a fact of its units, which becomes one more facet."""
        pieces = [
            (c, value, np.flatnonzero(self.about[fact][c] == value))
            for c in range(len(self.conditions))
            for value in np.unique(self.about[fact][c].astype(str))
        ]
        return Blocks(
            self.entries,
            tuple({**self.conditions[c], facet: str(value)} for c, value, _ in pieces),
            tuple(self.units[c][places] for c, _, places in pieces),
            {name: tuple(blocks[c][:, places] for c, _, places in pieces) for name, blocks in self.values.items()},
            {name: tuple(facts[c][places] for c, _, places in pieces) for name, facts in self.about.items()},
        )


def _columns(blocks: Sequence[Array], masks: Sequence[npt.NDArray[np.bool_]]) -> Lazy:
    """Return some columns of each of the blocks."""
    return Lazy(len(masks), lambda i: blocks[i][:, masks[i]])


def _rows(blocks: Sequence[Array], conditions: Sequence[int], rows: npt.NDArray[np.int64]) -> Lazy:
    """Return some rows of some of the blocks."""
    return Lazy(len(conditions), lambda i: blocks[conditions[i]][rows])
