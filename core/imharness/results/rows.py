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

    Names of entries, facets and units are compared as text, in the order of code points. Raises `UsageError` where an
    entry has two rows for one unit in one condition.

    Args:
        read: SQL -> batches of rows.
        sql: the query; its columns are named by the other arguments.
        entry: the column of entries.
        by: the columns of facets; each combination of their values is a condition.
        unit: the column of units.
        measures: the columns of numbers.
        about: the columns of facts about units.
    """
    text_columns = dict.fromkeys([entry, *by, unit])
    as_text = [f'CAST("{name}" AS VARCHAR) AS "{name}"' for name in text_columns]
    others = [f'"{name}"' for name in dict.fromkeys([*measures, *about]) if name not in text_columns]
    settings = dict[tuple[str, ...], _Setting]()  # facets of a condition -> its numbers
    names = dict[str, int]()  # name of a unit -> its code, in the order in which units came
    texts = dict[str, str]()  # every text -> itself, so that equal texts are one object
    for batch in read(f'SELECT {", ".join([*as_text, *others])} FROM ({sql}) WHERE "{unit}" IS NOT NULL'):
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
            repeated = setting.add(label, codes[rows], row_values, facts, rows)
            if repeated is not None:
                raise UsageError(
                    f"blocks: {label} has two rows for {unit} {[*names][repeated]} in {', '.join(facets)}; "
                    "name in `by` the columns that distinguish them"
                )
    entries = tuple(sorted({label for setting in settings.values() for label in setting.rows}))
    unit_names = np.array([*names], dtype=object)
    rank = np.empty(len(unit_names), dtype=np.int64)  # code of a unit -> its position among the sorted names
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

    A unit is named by its code. `texts` maps every text to itself, so that equal texts are one object.
    """

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self.units = np.zeros(0, dtype=np.int64)
        """The codes of the units of the condition so far ``(n,)``."""
        self.rows: dict[str, tuple[npt.NDArray[np.bool_], dict[str, Array]]] = {}
        """Entry -> which units it has, and measure -> its numbers; both may be shorter than `units`."""
        self._facts: list[Mapping[str, Array]] = []
        """Facts of the units, in pieces that follow each other."""
        self._order = self._sorted = np.zeros(0, dtype=np.int64)
        """The positions of the units in the order of their codes, and these sorted codes; made when needed."""

    def add(
        self,
        entry: str,
        units: npt.NDArray[np.int64],
        numbers: Mapping[str, Array],
        facts: pa.RecordBatch,
        rows: npt.NDArray[np.int64],
    ) -> int | None:
        """Add rows of an entry; return the code of a unit that it now has twice, or None.

        Args:
            entry: the label of the entry.
            units: the codes of the rows' units ``(m,)``.
            numbers: measure -> numbers of the rows ``(m,)``.
            facts: the facts about all rows of a batch.
            rows: the positions of these rows in the batch ``(m,)``.
        """
        at = self._positions(units, facts, rows)
        if entry not in self.rows:
            blank = {name: np.full(len(self.units), np.nan, _kind(array)) for name, array in numbers.items()}
            self.rows[entry] = np.zeros(len(self.units), dtype=bool), blank
        has_unit, values = self.rows[entry]
        if len(has_unit) < len(self.units):
            has_unit = _wider(has_unit, len(self.units))
            values = {name: _wider(block, len(self.units)) for name, block in values.items()}
            self.rows[entry] = has_unit, values
        twice = has_unit[at] | (np.bincount(at)[at] > 1)
        has_unit[at] = True
        for name, column in numbers.items():
            values[name][at] = column
        return int(units[twice.argmax()]) if twice.any() else None

    def _positions(
        self, units: npt.NDArray[np.int64], facts: pa.RecordBatch, rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the positions of units among those of the condition ``(m,)``; new units are added with their facts."""
        if len(units) == len(self.units) and (units == self.units).all():
            return np.arange(len(units))
        if len(self._sorted) != len(self.units):
            self._order = np.argsort(self.units)
            self._sorted = self.units[self._order]
        at_sorted = np.minimum(np.searchsorted(self._sorted, units), len(self._sorted) - 1)
        if len(self._sorted) and (self._sorted[at_sorted] == units).all():
            return np.asarray(self._order[at_sorted])
        different, first = np.unique(units, return_index=True)
        first_of_new = np.sort(first[~np.isin(different, self.units)])  # in the order in which they came
        self.units = np.concatenate([self.units, units[first_of_new]])
        new_facts = facts.take(pa.array(rows[first_of_new]))
        self._facts.append({name: self._interned(new_facts[name]) for name in facts.column_names})
        return self._positions(units, facts, rows)

    def _interned(self, column: pa.Array) -> Array:
        """Return a column as an array in which equal texts are one object."""
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
        """Return the sorted names of the n units, a block ``(entries, n)`` for each measure, and the facts ``(n,)``.

        The numbers are removed from this object as they are copied.

        Args:
            entries: all entries, in the order of the blocks.
            names: code of a unit -> its name.
            rank: code of a unit -> its position among all sorted names.
            measures: the names of the measures.
            shared: arrays of names by their codes, so that conditions with the same units share one array.
        """
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
    """Yield the groups of rows, in any order.

    Each combination of labels gets a number, its key, from the numbers of the labels in each column.
    """
    key, size, coded = np.zeros(len(batch), dtype=np.int64), 1, []  # keys are below `size`
    for name in columns:
        encoded = batch[name].dictionary_encode("encode")
        labels, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        coded.append((labels, codes))
        if size * len(labels) >= 2**63:  # number the keys anew, so that they fit into 64 bits
            key, size = np.unique(key, return_inverse=True)[1], len(batch)
        key, size = key * len(labels) + codes, size * len(labels)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    for rows in np.split(order, starts)[1:]:
        yield [labels[codes[rows[0]]] for labels, codes in coded], rows
