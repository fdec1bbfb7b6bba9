"""Scores as arrays: one block ``(entries, units)`` for each condition and measure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from imharness.errors import UsageError

Array = npt.NDArray[Any]
Names = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Blocks:
    """Scores of entries on units (images, choices, rows), condition by condition.

    `entries` are sorted, `conditions` by their facets. ``units[c]`` are the names of the units that any entry has in
    condition c, sorted, and ``about[fact][c]`` a fact of each. ``values[measure][c]`` has shape ``(entries, units)``,
    NaN where an entry has no number.
    """

    entries: tuple[str, ...]
    conditions: tuple[Mapping[str, str], ...]
    units: tuple[Names, ...]
    values: Mapping[str, tuple[Array, ...]]
    about: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)

    def of(self, measure: str, entry: str, conditions: Sequence[int] | None = None) -> Array:
        """Return the numbers of an entry, condition after condition, in the order of the units; NaN is left out.

        `conditions`: positions among the conditions, in the order wanted; all in their order by default.
        """
        chosen = range(len(self.conditions)) if conditions is None else conditions
        parts = [self.values[measure][c][self.entries.index(entry)] for c in chosen]
        found: Array = np.concatenate(parts) if parts else np.zeros(0)
        return found[~np.isnan(found)]

    def once(self, measure: str, entry: str, conditions: Sequence[int] | None = None) -> npt.NDArray[np.float64]:
        """Return each unit's mean over the conditions, in the order of unit names; only finite numbers count."""
        return self.once_by("", measure, entry, conditions)[0]

    def once_by(
        self, cluster: str, measure: str, entry: str, conditions: Sequence[int] | None = None
    ) -> tuple[npt.NDArray[np.float64], Names]:
        """Return `once`, and the cluster of each of these units as `clusters` names it."""
        chosen = range(len(self.conditions)) if conditions is None else conditions
        row, empty = self.entries.index(entry), np.zeros(0, object)
        found = np.concatenate([np.zeros(0), *(self.values[measure][c][row].astype(np.float64) for c in chosen)])
        names = np.concatenate([empty, *(self.units[c] for c in chosen)])
        groups = np.concatenate([empty, *(self.clusters(cluster, c) for c in chosen)])
        kept = np.isfinite(found)
        _, first, place = np.unique(names[kept].astype(str), return_index=True, return_inverse=True)
        return np.asarray(np.bincount(place, found[kept]) / np.bincount(place)), groups[kept][first]

    def clusters(self, fact: str, condition: int) -> Names:
        """Return the cluster of each unit of a condition: what a fact says, or the unit's name where it says nothing.

        Without a fact (""), every unit is a cluster of its own.
        """
        names = self.units[condition]
        if not fact:
            return names
        said = [str(own) if own not in (None, "") and own == own else name  # NaN is not equal to itself
                for own, name in zip(self.about[fact][condition].tolist(), names, strict=True)]  # fmt: skip
        return np.array(said, dtype=object)

    def where(self, **facets: str) -> list[int]:
        """Return the positions of the conditions with these facets."""
        return [c for c, own in enumerate(self.conditions) if all(own[name] == value for name, value in facets.items())]

    def part(self, conditions: Sequence[int]) -> Blocks:
        """Return some of the conditions, with the entries that have a number there."""
        values = {name: [blocks[c] for c in conditions] for name, blocks in self.values.items()}
        known = [~np.isnan(block).all(axis=1) for chosen in values.values() for block in chosen]
        kept = np.flatnonzero(np.any(known, axis=0))
        return Blocks(
            tuple(self.entries[i] for i in kept),
            tuple(self.conditions[c] for c in conditions),
            tuple(self.units[c] for c in conditions),
            {name: tuple(block[kept] for block in chosen) for name, chosen in values.items()},
            {name: tuple(facts[c] for c in conditions) for name, facts in self.about.items()},
        )

    def split(self, fact: str, facet: str) -> Blocks:
        """Return blocks in which a fact of the units tells conditions apart, as one more facet."""
        found = [
            (c, value, np.flatnonzero(self.about[fact][c] == value))
            for c in range(len(self.conditions))
            for value in np.unique(self.about[fact][c].astype(str))
        ]
        return Blocks(
            self.entries,
            tuple({**self.conditions[c], facet: str(value)} for c, value, _ in found),
            tuple(self.units[c][places] for c, _, places in found),
            {name: tuple(blocks[c][:, places] for c, _, places in found) for name, blocks in self.values.items()},
            {name: tuple(facts[c][places] for c, _, places in found) for name, facts in self.about.items()},
        )


def made_of(
    select: Callable[[str], pa.Table],
    sql: str,
    *,
    entry: str,
    by: Sequence[str] = (),
    unit: str = "name",
    measures: Sequence[str] = ("score",),
    about: Sequence[str] = (),
) -> Blocks:
    """Make blocks; `select` runs SQL. DuckDB groups and sorts, so that no long row reaches Python.

    Names of entries, facets and units are compared as text, in the order of code points.
    """
    named = dict.fromkeys([entry, *by, unit])
    text = [f'CAST("{name}" AS VARCHAR) AS "{name}"' for name in named]
    kept = [f'"{name}"' for name in dict.fromkeys([*measures, *about]) if name not in named]
    select(f"CREATE OR REPLACE TEMP VIEW _long AS SELECT {', '.join([*text, *kept])} FROM ({sql})")
    select(
        f'CREATE OR REPLACE TEMP TABLE _units AS SELECT "{unit}" AS _name, row_number() OVER (ORDER BY "{unit}") - 1 '
        f'AS _place FROM (SELECT DISTINCT "{unit}" FROM _long)'
    )
    keys = ", ".join(f'"{name}"' for name in [*by, entry])
    columns = "".join(f', list("{name}" ORDER BY _place) AS "{name}"' for name in dict.fromkeys([*measures, *about]))
    lines = select(
        f"SELECT {keys}, list(CAST(_place AS INTEGER) ORDER BY _place) AS _place{columns} FROM _long "
        f'JOIN _units ON _name = "{unit}" GROUP BY {keys} ORDER BY {keys}'
    )
    names = np.array(select("SELECT _name FROM _units ORDER BY _place")["_name"].to_pylist(), dtype=object)
    labels = lines[entry].to_pylist()
    entries = tuple(sorted(set(labels)))
    row = {label: i for i, label in enumerate(entries)}
    facets = list(zip(*(lines[name].to_pylist() for name in by), strict=True)) if by else [()] * len(labels)
    starts = [i for i, own in enumerate(facets) if i == 0 or own != facets[i - 1]]
    flat, ends = _flat(lines["_place"]), _ends(lines["_place"])
    again = np.flatnonzero(np.diff(flat) == 0) + 1
    again = again[~np.isin(again, ends)]
    if len(again):
        line = int(np.searchsorted(ends, again[0], side="right")) - 1
        raise UsageError(
            f"blocks: {labels[line]} has two rows for {unit} {names[flat[again[0]]]} in {', '.join(facets[line])}; "
            "name in `by` the columns that tell them apart"
        )
    numbers = {name: _flat(lines[name]) for name in dict.fromkeys([*measures, *about])}
    spans = [(a, b, int(ends[a]), int(ends[b])) for a, b in itertools.pairwise([*starts, len(labels)])]
    units: list[Names] = []
    values: dict[str, list[Array]] = {measure: [] for measure in measures}
    facts: dict[str, list[Array]] = {name: [] for name in about}
    for a, b, low, high in spans:
        here, first, place = np.unique(flat[low:high], return_index=True, return_inverse=True)
        units.append(names[here])
        rows = np.repeat([row[label] for label in labels[a:b]], np.diff(ends[a : b + 1]))
        for measure in measures:
            own = numbers[measure][low:high]
            block = np.full((len(entries), len(here)), np.nan, own.dtype if own.dtype == np.float32 else np.float64)
            block[rows, place] = own
            values[measure].append(block)
        for name in about:
            facts[name].append(numbers[name][low:high][first])
    return Blocks(
        entries,
        tuple(dict(zip(by, facets[start], strict=True)) for start in starts),
        tuple(units),
        {measure: tuple(blocks) for measure, blocks in values.items()},
        {name: tuple(columns) for name, columns in facts.items()},
    )


def _flat(column: pa.ChunkedArray) -> Array:
    """Return the items of all lists, one after the other."""
    return np.asarray(column.combine_chunks().flatten().to_numpy(zero_copy_only=False))


def _ends(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return where each list begins among all items, and their number."""
    lengths = pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False) if len(column) else []
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
