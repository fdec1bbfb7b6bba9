"""Scores as arrays: one block ``(entries, units)`` for each condition and measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
    read: Callable[[str], Iterable[pa.RecordBatch]],
    sql: str,
    *,
    entry: str,
    by: Sequence[str] = (),
    unit: str = "name",
    measures: Sequence[str] = ("score",),
    about: Sequence[str] = (),
) -> Blocks:
    """Make blocks of the rows that `read` yields for SQL, batch by batch, in whichever order they come.

    Names of entries, facets and units are compared as text, in the order of code points.
    """
    named = dict.fromkeys([entry, *by, unit])
    text = [f'CAST("{name}" AS VARCHAR) AS "{name}"' for name in named]
    kept = [f'"{name}"' for name in dict.fromkeys([*measures, *about]) if name not in named]
    settings, names = dict[tuple[str, ...], _Setting](), dict[str, int]()
    for batch in read(f'SELECT {", ".join([*text, *kept])} FROM ({sql}) WHERE "{unit}" IS NOT NULL'):
        said = batch[unit].dictionary_encode()
        codes = np.array([names.setdefault(name, len(names)) for name in said.dictionary.to_pylist()], np.int64)
        codes = codes[said.indices.to_numpy()]
        numbers, facts = ({name: _array(batch[name]) for name in own} for own in (measures, about))
        for (label, *facets), rows in _grouped(batch, [entry, *by]):
            setting = settings.setdefault(tuple(facets), _Setting())
            columns = ({name: own[rows] for name, own in found.items()} for found in (numbers, facts))
            again = setting.add(label, codes[rows], *columns)
            if again is not None:
                raise UsageError(
                    f"blocks: {label} has two rows for {unit} {[*names][again]} in {', '.join(facets)}; "
                    "name in `by` the columns that tell them apart"
                )
    entries = tuple(sorted({label for setting in settings.values() for label in setting.rows}))
    known = np.array([*names], dtype=object)
    rank = np.empty(len(known), dtype=np.int64)
    rank[sorted(range(len(known)), key=known.__getitem__)] = np.arange(len(known))
    conditions, shared = sorted(settings), dict[bytes, Names]()
    found = [settings.pop(facets).finished(entries, known, rank, measures, shared) for facets in conditions]
    return Blocks(
        entries,
        tuple(dict(zip(by, facets, strict=True)) for facets in conditions),
        tuple(units for units, _, _ in found),
        {name: tuple(values[name] for _, values, _ in found) for name in measures},
        {name: tuple(facts[name] for _, _, facts in found) for name in about},
    )


class _Setting:
    """The numbers of one condition: a row for each entry, units in the order in which they came."""

    def __init__(self) -> None:
        self.units = np.zeros(0, dtype=np.int64)
        self.rows: dict[str, tuple[npt.NDArray[np.bool_], dict[str, Array]]] = {}
        self._facts: list[Mapping[str, Array]] = []

    def add(
        self, entry: str, units: npt.NDArray[np.int64], numbers: Mapping[str, Array], facts: Mapping[str, Array]
    ) -> int | None:
        """Take in rows of an entry; return a unit that it has twice, if there is one."""
        at = self._places(units, facts)
        if entry not in self.rows:
            blank = {name: np.full(len(self.units), np.nan, _kind(own)) for name, own in numbers.items()}
            self.rows[entry] = np.zeros(len(self.units), dtype=bool), blank
        had, values = self.rows[entry]
        if len(had) < len(self.units):
            had, values = _wider(had, len(self.units)), {n: _wider(own, len(self.units)) for n, own in values.items()}
            self.rows[entry] = had, values
        twice = had[at] | (np.bincount(at)[at] > 1)
        had[at] = True
        for name, own in numbers.items():
            values[name][at] = own
        return int(units[twice.argmax()]) if twice.any() else None

    def _places(self, units: npt.NDArray[np.int64], facts: Mapping[str, Array]) -> npt.NDArray[np.int64]:
        """Return the places of units among all of the condition; new ones are added with their facts."""
        if len(units) == len(self.units) and (units == self.units).all():
            return np.arange(len(units))
        new, first = np.unique(units, return_index=True)
        first = np.sort(first[~np.isin(new, self.units)])
        self.units = np.concatenate([self.units, units[first]])
        self._facts.append({name: own[first] for name, own in facts.items()})
        order = np.argsort(self.units)
        return np.asarray(order[np.searchsorted(self.units, units, sorter=order)])

    def finished(
        self, entries: Sequence[str], names: Names, rank: npt.NDArray[np.int64], measures: Sequence[str],
        shared: dict[bytes, Names],
    ) -> tuple[Names, dict[str, Array], dict[str, Array]]:  # fmt: skip
        """Return the names of the units, sorted, a block of each measure and the facts of the units."""
        order = np.argsort(rank[self.units])
        codes = self.units[order]
        values = {}
        for name in measures:
            own = {label: self.rows[label][1].pop(name) for label in entries if label in self.rows}
            block = np.full((len(entries), len(order)), np.nan, next(iter(own.values())).dtype)
            for i, label in enumerate(entries):
                if label in own:
                    block[i] = _wider(own.pop(label), len(order))[order]
            values[name] = block
        facts = {name: np.concatenate([part[name] for part in self._facts])[order] for name in self._facts[0]}
        return shared.setdefault(codes.tobytes(), names[codes]), values, facts


def _wider(row: Array, size: int) -> Array:
    """Return a row with as many numbers, or False, at its end as are missing."""
    blank = False if row.dtype == np.bool_ else np.nan
    return row if len(row) == size else np.concatenate([row, np.full(size - len(row), blank, row.dtype)])


def _kind(numbers: Array) -> type[np.floating]:
    return np.float32 if numbers.dtype == np.float32 else np.float64


def _array(column: pa.Array) -> Array:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _grouped(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[list[str], npt.NDArray[np.int64]]]:
    """Yield the rows of a batch that have the same labels in some columns, with these labels."""
    key, size, coded = np.zeros(len(batch), dtype=np.int64), 1, []
    for name in columns:
        own = batch[name].dictionary_encode("encode")
        coded.append((own.dictionary.to_pylist(), own.indices.to_numpy()))
        if size * len(own.dictionary) >= 2**63:
            key, size = np.unique(key, return_inverse=True)[1], len(batch)
        key, size = key * len(own.dictionary) + own.indices.to_numpy(), size * len(own.dictionary)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    for rows in np.split(order, starts)[1:]:
        yield [labels[codes[rows[0]]] for labels, codes in coded], rows
