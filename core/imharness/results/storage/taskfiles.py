"""Files of tasks: the rows of a task in Parquet, with its record in the metadata and the sha256 of it all in the name.

::

    tasks/ab/<key>.<number>.<kind>.<sha256>.parquet

A file never changes. What is computed again gets the next number, and the earlier file is removed; where a process was
ended in between, the highest number counts. One listing therefore says which tasks are done, and whatever is read is
verified by its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

TASKS = "tasks"
RECORD = b"record"
"""The key of the record in the metadata of a file."""
_NAME = re.compile(r"([0-9a-f]{64})\.([0-9]{1,9})\.(done|arrays|failed)\.([0-9a-f]{64})\.parquet")


class TaskFile(NamedTuple):
    """The file of a task; the greatest one of a task is its latest.

    `number` counts how often the task was computed. `kind`: "done", "arrays" where arrays belong to what was done, or
    "failed".
    """

    key: str
    number: int
    kind: str
    sha256: str

    @property
    def name(self) -> str:
        """The name of the file in its store."""
        return f"{folder_of(self.key)}/{self.key}.{self.number}.{self.kind}.{self.sha256}.parquet"


def folder_of(key: str) -> str:
    """Return the folder of the files of a task."""
    return f"{TASKS}/{key[:2]}"


def task_files(names: Iterable[str]) -> dict[str, list[TaskFile]]:
    """Return key -> the files of the task, mostly one, the latest last; names that are not of a task are left out."""
    grouped: dict[str, list[TaskFile]] = {}
    for name in names:
        if match := _NAME.fullmatch(name.rpartition("/")[2]):
            grouped.setdefault(match[1], []).append(TaskFile(match[1], int(match[2]), match[3], match[4]))
    return {key: sorted(files) for key, files in grouped.items()}


def content_of(rows: pa.Table, record: bytes) -> bytes:
    """Return the content of the file of a task."""
    out = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata({RECORD: record}), out, compression="zstd")
    content: bytes = out.getvalue().to_pybytes()
    return content


def record_in(content: bytes) -> bytes:
    """Return the record in the content of a file."""
    return bytes(pq.read_schema(pa.BufferReader(content)).metadata[RECORD])


def rows_in(content: bytes) -> pa.Table:
    """Return the rows in the content of a file."""
    with pq.ParquetFile(pa.BufferReader(content)) as opened:  # `read_table` makes a data set first: five times as long
        return opened.read().replace_schema_metadata()


def digest_of(rows: pa.Table) -> str:
    """Return a digest that equal rows have, whoever wrote them."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return hashlib.sha256(out.getvalue()).hexdigest()


def quoted(path: Path) -> str:
    """Return a path as a text of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def sql_of_rows(paths: Iterable[Path]) -> str:
    """Return the SQL that reads files of tasks, with the column `filename`.

    Files with the same columns are read together, so that the columns of only one of them are read at each use.
    """
    alike: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        alike.setdefault(pq.read_schema(path).remove_metadata().to_string(), []).append(quoted(path))
    return " UNION ALL BY NAME ".join(
        f"SELECT * FROM read_parquet([{', '.join(same)}], filename = true)" for same in alike.values()
    )
