"""Makes blocks from long rows, which come batch by batch and in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from imharness.errors import UsageError
from imharness.results.blocks import Array, Blocks, Names

Group = tuple[list[str], npt.NDArray[np.int64]]
"""Labels, and the positions of the rows that have them."""
_RUN = 64
"""The least mean length of runs of equal labels in a batch at which it is faster to group runs than rows."""


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
    """Return blocks of the rows that `read` yields for SQL, batch by batch and in any order.

    Names of entries, facets and units are compared as text, in the order of code points.
    """
    named = dict.fromkeys([entry, *by, unit])
    text = [f'CAST("{name}" AS VARCHAR) AS "{name}"' for name in named]
    selected = [f'"{name}"' for name in dict.fromkeys([*measures, *about]) if name not in named]
    settings, names, texts = dict[tuple[str, ...], _Setting](), dict[str, int](), dict[str, str]()
    for batch in read(f'SELECT {", ".join([*text, *selected])} FROM ({sql}) WHERE "{unit}" IS NOT NULL'):
        encoded = batch[unit].dictionary_encode()
        codes = np.array(
            [names.setdefault(texts.setdefault(name, name), len(names)) for name in encoded.dictionary.to_pylist()],
            np.int64,
        )
        codes = codes[encoded.indices.to_numpy()]
        numbers = {name: _array(batch[name]) for name in measures}
        facts = batch.select(list(about))
        for (label, *facets), rows in _grouped(batch, [entry, *by]):
            setting = settings.setdefault(tuple(facets), _Setting(texts))
            row_values = {name: column[rows] for name, column in numbers.items()}
            again = setting.add(label, codes[rows], row_values, facts, rows)
            if again is not None:
                raise UsageError(
                    f"blocks: {label} has two rows for {unit} {[*names][again]} in {', '.join(facets)}; "
                    "name in `by` the columns that distinguish them"
                )
    entries = tuple(sorted({label for setting in settings.values() for label in setting.rows}))
    unit_names = np.array([*names], dtype=object)
    rank = np.empty(len(unit_names), dtype=np.int64)
    rank[sorted(range(len(unit_names)), key=unit_names.__getitem__)] = np.arange(len(unit_names))
    conditions, shared = sorted(settings), dict[bytes, Names]()
    pieces = [settings.pop(facets).finished(entries, unit_names, rank, measures, shared) for facets in conditions]
    return Blocks(
        entries,
        tuple(dict(zip(by, facets, strict=True)) for facets in conditions),
        tuple(units for units, _, _ in pieces),
        {name: tuple(values[name] for _, values, _ in pieces) for name in measures},
        {name: tuple(facts[name] for _, _, facts in pieces) for name in about},
    )


class _Setting:
    """The numbers of one condition: a row for each entry, with units in the order in which they came.

    `texts` maps every text that is kept to itself, so that equal texts are one object.
    """

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self.units = np.zeros(0, dtype=np.int64)
        self.rows: dict[str, tuple[npt.NDArray[np.bool_], dict[str, Array]]] = {}
        self._facts: list[Mapping[str, Array]] = []
        self._order = self._sorted = np.zeros(0, dtype=np.int64)

    def add(
        self,
        entry: str,
        units: npt.NDArray[np.int64],
        numbers: Mapping[str, Array],
        facts: pa.RecordBatch,
        rows: npt.NDArray[np.int64],
    ) -> int | None:
        """Add rows of an entry; return a unit that it has twice, if there is one.

        `facts` are what is known about all units of a batch; `rows` are the positions of these units in it.
        """
        at = self._places(units, facts, rows)
        if entry not in self.rows:
            blank = {name: np.full(len(self.units), np.nan, _kind(array)) for name, array in numbers.items()}
            self.rows[entry] = np.zeros(len(self.units), dtype=bool), blank
        had, values = self.rows[entry]
        if len(had) < len(self.units):
            had, values = (
                _wider(had, len(self.units)),
                {n: _wider(block, len(self.units)) for n, block in values.items()},
            )
            self.rows[entry] = had, values
        twice = had[at] | (np.bincount(at)[at] > 1)
        had[at] = True
        for name, column in numbers.items():
            values[name][at] = column
        return int(units[twice.argmax()]) if twice.any() else None

    def _places(
        self, units: npt.NDArray[np.int64], facts: pa.RecordBatch, rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the positions of units among those of the condition; new units are added with their facts."""
        if len(units) == len(self.units) and (units == self.units).all():
            return np.arange(len(units))
        if len(self._sorted) != len(self.units):
            self._order = np.argsort(self.units)
            self._sorted = self.units[self._order]
        near = np.minimum(np.searchsorted(self._sorted, units), len(self._sorted) - 1)
        if len(self._sorted) and (self._sorted[near] == units).all():
            return np.asarray(self._order[near])
        new, first = np.unique(units, return_index=True)
        first = np.sort(first[~np.isin(new, self.units)])
        self.units = np.concatenate([self.units, units[first]])
        new_facts = facts.take(pa.array(rows[first]))
        self._facts.append({name: self._interned(new_facts[name]) for name in facts.column_names})
        return self._places(units, facts, rows)

    def _interned(self, column: pa.Array) -> Array:
        if not pa.types.is_string(column.type):
            return _array(column)
        encoded = column.dictionary_encode("encode")
        different = np.array(
            [self._texts.setdefault(text, text) for text in encoded.dictionary.to_pylist()], dtype=object
        )
        return np.asarray(different[encoded.indices.to_numpy()])

    def finished(
        self,
        entries: Sequence[str],
        names: Names,
        rank: npt.NDArray[np.int64],
        measures: Sequence[str],
        shared: dict[bytes, Names],
    ) -> tuple[Names, dict[str, Array], dict[str, Array]]:
        """Return the sorted names of the units, a block for each measure, and the facts of the units."""
        order = np.argsort(rank[self.units])
        codes = self.units[order]
        values = {}
        for name in measures:
            columns = {label: self.rows[label][1].pop(name) for label in entries if label in self.rows}
            block = np.full((len(entries), len(order)), np.nan, next(iter(columns.values())).dtype)
            for i, label in enumerate(entries):
                if label in columns:
                    block[i] = _wider(columns.pop(label), len(order))[order]
            values[name] = block
        facts = {name: np.concatenate([piece[name] for piece in self._facts])[order] for name in self._facts[0]}
        return shared.setdefault(codes.tobytes(), names[codes]), values, facts


def _wider(row: Array, size: int) -> Array:
    """Return a row that is extended to `size` by NaN, or by False."""
    blank = False if row.dtype == np.bool_ else np.nan
    return row if len(row) == size else np.concatenate([row, np.full(size - len(row), blank, row.dtype)])


def _kind(numbers: Array) -> type[np.floating]:
    return np.float32 if numbers.dtype == np.float32 else np.float64


def _array(column: pa.Array) -> Array:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _grouped(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[Group]:
    """Return the rows of a batch in groups with the same labels in some columns."""
    return _by_runs(batch, columns) or _by_rows(batch, columns)


def _by_runs(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[Group] | None:
    """Return the groups if the rows come in long runs of equal labels, as the rows of tasks do, else None."""
    encoded = []
    for name in columns:
        runs = pc.run_end_encode(batch[name], pa.int64())
        if not len(batch) or len(runs.run_ends) * _RUN > len(batch):
            return None
        encoded.append(runs)
    ends = np.unique(np.concatenate([column.run_ends.to_numpy() for column in encoded]))
    texts = [
        column.values.take(pa.array(np.searchsorted(column.run_ends.to_numpy(), ends))).to_pylist()
        for column in encoded
    ]
    groups = dict[tuple[str, ...], list[npt.NDArray[np.int64]]]()
    for start, end, *labels in zip([0, *ends[:-1].tolist()], ends.tolist(), *texts, strict=True):
        groups.setdefault(tuple(labels), []).append(np.arange(start, end))
    return ((list(labels), np.concatenate(rows)) for labels, rows in groups.items())


def _by_rows(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[Group]:
    """Yield the groups of rows in any order."""
    key, size, coded = np.zeros(len(batch), dtype=np.int64), 1, []
    for name in columns:
        encoded = batch[name].dictionary_encode("encode")
        coded.append((encoded.dictionary.to_pylist(), encoded.indices.to_numpy()))
        if size * len(encoded.dictionary) >= 2**63:
            key, size = np.unique(key, return_inverse=True)[1], len(batch)
        key, size = key * len(encoded.dictionary) + encoded.indices.to_numpy(), size * len(encoded.dictionary)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    for rows in np.split(order, starts)[1:]:
        yield [labels[codes[rows[0]]] for labels, codes in coded], rows
