"""Reads tables from csv, parquet and Arrow files, with distinct columns, complete rows and valid numbers."""

from __future__ import annotations

import csv
import io
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.errors import UsageError
from imharness.reading.opening import GIB, MIB, plain_file, printable, read_text
from imharness.reading.text import number, reason

BYTES = 512 * MIB
STREAM_BYTES = 64 * GIB
ROWS = 5_000_000
COLUMNS = 4_096
NUMBERS = 200_000_000
"""The most numbers in a Parquet file: rows times columns."""
SEPARATORS = {";": "semicolons", "\t": "tabs"}
"""Signs that other programs, or the same ones in other countries, write between columns, and their names."""
LAST = 1_000
"""In how many of the last characters of a table its last value is looked for."""


@dataclass(frozen=True)
class Csv:
    """A comma-separated table with a header."""

    path: Path
    columns: tuple[str, ...]
    _text: str

    def column(self, *names: str) -> str:
        """Return the column that has the first of these names that one has, or ""; capitals and spaces do not count.

        Raises `UsageError` if two columns have the name.
        """
        for name in names:
            same = [column for column in self.columns if column.strip().casefold() == name.casefold()]
            if len(same) > 1:
                raise UsageError(
                    f"{printable(self.path)} has the columns {same[0]!r} and {same[1]!r}; rename one of them."
                )
            if same:
                return same[0]
        return ""

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the number of the line in which a row ends, and the row by column; blank lines are skipped.

        Raises a `UsageError` that names the line.
        """
        for line, row in _records(self.path, self._text, skip=1):
            if len(row) != len(self.columns):
                raise UsageError(
                    f"{printable(self.path)}, line {line}: {len(row)} fields, but the header has {len(self.columns)}."
                    f"{_other_signs(row)}"
                )
            yield line, dict(zip(self.columns, row, strict=True))


def read_csv(path: Path, limit: int = BYTES) -> Csv:
    """Return a comma-separated table in UTF-8, and warn if it may be cut off; raises a `UsageError` of one line."""
    text = read_text(path, limit)
    if text and not text.endswith(("\n", "\r")):
        last = text[-LAST:].splitlines()[-1].rpartition(",")[2]
        warnings.warn(
            f"{printable(path)} does not end with a line break, as tables do that are complete: if it was cut off, its "
            f"last value is longer than {last!r:.60}, and rows may be missing",
            stacklevel=1,  # said once, however often a command reads the table
        )
    _, head = next(_records(path, text), (0, []))
    other = next((name for sign, name in SEPARATORS.items() if len(head) == 1 and sign in head[0]), "")
    if other:
        raise UsageError(
            f"{printable(path)}, line 1: columns are separated by {other}; save the table with commas between columns, "
            "and with decimal points in numbers."
        )
    return Csv(path, _columns(path, head), text)


def _other_signs(row: list[str]) -> str:
    """Return what may be wrong with a row that has another number of fields than the header."""
    if len(row) == 1 and (other := next((name for sign, name in SEPARATORS.items() if sign in row[0]), "")):
        return f" It is separated by {other}; write commas."
    if any(
        first.strip().lstrip("+-").isdecimal() and right.strip().isdecimal() for first, right in itertools.pairwise(row)
    ):
        return " If its numbers have commas, write decimal points, and nothing between thousands."
    return ""


def _records(path: Path, text: str, skip: int = 0) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for count, row in enumerate(row for row in reader if row):
            if count > ROWS:
                raise UsageError(f"{printable(path)} has more than {ROWS} rows.")
            if count >= skip:
                yield reader.line_num, row
    except csv.Error as error:
        raise UsageError(f"{printable(path)}, line {reader.line_num}: {reason(error)}.") from None


def _columns(path: Path, names: list[str]) -> tuple[str, ...]:
    """Return distinct names; only columns without a name, such as spreadsheets append, may be there several times."""
    twice = sorted({name for name in names if name and names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise UsageError(f"{printable(path)} has more than one column {twice[0]!r:.60}.")
    if len(names) > COLUMNS:
        raise UsageError(f"{printable(path)} has {len(names)} columns; at most {COLUMNS} are read.")
    return tuple(names)


@dataclass(frozen=True)
class Columns:
    """A table whose columns are read one by one. Row numbers in messages count from 0.

    Capitals of their names and spaces around them do not count: names are here in small letters.
    """

    path: Path
    columns: tuple[str, ...]
    _table: Any

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column of finite numbers; raises a `UsageError` that names column and row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._whole(name)
        kind = column.type
        if self.path.suffix == ".csv":
            wanted = pc.utf8_trim(column, " \t")
            wrong = pc.invert(
                pc.match_substring_regex(wanted, r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$")
            )
            self._refuse(name, column, wrong.to_numpy(zero_copy_only=False))
            column = pc.cast(pc.replace_substring_regex(wanted, r"^\+", ""), pa.float64())
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise UsageError(f"{printable(self.path)}: column {name} holds {kind!s:.60}; it must hold numbers.")
        values = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
        self._refuse(name, column, ~np.isfinite(values))
        return values

    def texts(self, name: str) -> npt.NDArray[np.str_]:
        """Return a column of texts; raises a `UsageError` that names column and row."""
        import pyarrow as pa

        column = self._whole(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise UsageError(f"{printable(self.path)}: column {name} holds {column.type!s:.60}; it must hold text.")
        return np.asarray(column.to_pylist(), dtype=str)

    def _whole(self, name: str) -> Any:
        """Return a column as one array of Arrow; raises a `UsageError` that names the first row without a value."""
        column = self._table.column(name).combine_chunks()
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise UsageError(f"{printable(self.path)}, row {row}: {name} is empty.")
        return column

    def _refuse(self, name: str, column: Any, wrong: npt.NDArray[np.bool_]) -> None:
        """Raise `UsageError` if a value of a column is `wrong`, ``(rows,)``: that of `number` for the first one."""
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            number(str(column[row].as_py()), f"{printable(self.path)}, row {row}: {name}")


def read_columns(path: Path, limit: int = BYTES) -> Columns:
    """Return the table in a csv or parquet file, as its extension says; raises a `UsageError` of one line.

    Numbers in a csv file are text; those in a parquet file must have numeric types.
    """
    import pyarrow as pa

    try:
        table = _from_csv(path, limit) if path.suffix == ".csv" else _from_parquet(path, limit)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise UsageError(f"{printable(path)} cannot be read: {reason(error)}") from None
    names = _columns(path, [name.strip().casefold() for name in table.column_names])
    return Columns(path, names, table.rename_columns(names))


def numbered(names: Sequence[str], letter: str, where: str) -> list[str]:
    """Return the columns of a table that are called f0, f1, ..., for the letter "f".

    Raises `UsageError` if one of them is missing, or there are others that are nearly called so, such as F_1.
    """
    alike = [name for name in names if re.fullmatch(rf"{letter}_?\d+", name.strip(), re.ASCII | re.IGNORECASE)]
    wanted = [f"{letter}{number}" for number in range(len(alike))]
    for name in wanted:
        if name not in names:
            strange = next(each for each in alike if each not in wanted)
            raise UsageError(f"{where} has a column {strange!r:.60} and no column {name}; they are numbered from 0.")
    return wanted


def read_stream(path: Path, limit: int = STREAM_BYTES) -> Any:
    """Return the table in a file of Arrow's stream format, as the library ``datasets`` writes it.

    Its columns stay on the disk until they are used. Raises a `UsageError` of one line.
    """
    import pyarrow as pa

    with plain_file(path, limit):
        pass  # it is checked alone, because Arrow opens it by its path
    try:
        table = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise UsageError(f"{printable(path)} cannot be read: {reason(error)}") from None
    _columns(path, table.column_names)
    return table


def _from_csv(path: Path, limit: int) -> Any:
    import pyarrow as pa
    import pyarrow.csv

    content = read_csv(path, limit)
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(content.columns, pa.string()), strings_can_be_null=False, null_values=[]
    )
    read = pa.csv.ReadOptions(use_threads=False, block_size=16 * MIB)
    try:
        return pa.csv.read_csv(io.BytesIO(content._text.encode()), convert_options=options, read_options=read)
    except pa.ArrowInvalid:
        for _ in content.rows():  # says in our words which line is wrong
            pass
        raise


def _from_parquet(path: Path, limit: int) -> Any:
    import pyarrow.parquet as pq

    with plain_file(path, limit) as file, pq.ParquetFile(file, pre_buffer=False) as content:
        names, rows = content.schema_arrow.names, content.metadata.num_rows
        _columns(path, names)
        if not 0 <= rows <= ROWS or rows * len(names) > NUMBERS:
            raise UsageError(f"{printable(path)} declares {rows} rows of {len(names)} columns, which is too many.")
        return content.read(use_threads=False)
