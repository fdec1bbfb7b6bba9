"""SQL over finished results: one DuckDB view per step, streamed from the Parquet files."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from imharness.errors import StoreError
from imharness.results.blocks import Blocks
from imharness.results.rows import made_of
from imharness.results.storage.taskfiles import quoted, sql_of_rows
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

T = TypeVar("T")
MEMORY = "300MB"
"""The most that the database may hold in memory; rows that become arrays do not count."""
FEW = 64
"""The number of files of a step that each query may open again."""
AT_ONCE = 2**17
"""The number of rows in a batch."""


class ResultQuery:
    """The `Query` from which tracks make their tables.

    Joins are carried out as they are written: the rows of the first table stream past the other tables. The order that
    the database would choose itself may hold all rows of a step in memory. One thread does all sums, so that they are
    the same each time.

    `components` has one mapping of facts for each component that took part, for the view ``components``. Whatever does
    not fit into `MEMORY` goes to a temporary folder, which is removed with the query. If another process computes tasks
    again while their rows are read, equal rows are read at their new place.
    """

    def __init__(
        self, store: Store, records: Iterable[TaskRecord], components: Sequence[Mapping[str, object]] = ()
    ) -> None:
        import duckdb  # loaded here because plans need no tables

        self._folder = folder = tempfile.mkdtemp(prefix="imharness-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._db = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": MEMORY, "temp_directory": folder})
        self._db.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        self._store, self._records, self._duckdb = store, list(records), duckdb
        self._paths = store.row_files(self._records)
        """Key -> the file with the rows of the record."""
        self._views_are_current = False
        self._scattered = dict[str, str]()
        """The SQL of steps whose rows lie in many files."""
        self._steady(lambda: None)  # makes the views
        if components:
            self._db.register("components", _table(components))

    @property
    def steps(self) -> frozenset[str]:
        return frozenset(record.spec.step for record in self._records)

    def blocks(self, sql: str, **columns: Any) -> Blocks:
        def streamed(select: str) -> pa.RecordBatchReader:
            self._gather(sql)
            return self._db.sql(select).to_arrow_reader(AT_ONCE)

        return self._steady(lambda: made_of(streamed, sql, **columns))

    def __call__(self, sql: str, /) -> dict[str, npt.NDArray[Any]]:
        table = self._steady(lambda: self._table(sql))
        return {name: np.asarray(table[name].to_numpy(zero_copy_only=False)) for name in table.column_names}

    def _table(self, sql: str) -> pa.Table:
        self._gather(sql)
        relation = self._db.sql(sql)
        return pa.table({}) if relation is None else relation.to_arrow_table()

    def _steady(self, job: Callable[[], T]) -> T:
        """Return what `job` returns; if it fails because another process has replaced files, do it again.

        After an error, all files are looked up and hashed again. Raises `DamagedError` if that finds a changed file,
        `StoreError` if rows cannot be read, and the error of the database if no file was replaced.
        """
        while True:
            try:
                if not self._views_are_current:
                    self._make_views()
                return job()
            except self._duckdb.OutOfMemoryException as error:
                raise StoreError(f"no room for tables in {tempfile.gettempdir()}; set TMPDIR elsewhere") from error
            except (self._duckdb.Error, pa.ArrowInvalid, OSError) as error:
                before, self._paths = self._paths, self._store.row_files(self._records)
                self._views_are_current = False
                if self._paths != before:
                    continue
                if isinstance(error, self._duckdb.IOException | OSError):
                    raise StoreError(f"rows cannot be read: {error}") from error
                raise

    def _make_views(self) -> None:
        for step in sorted(self.steps):
            records = [record for record in self._records if record.spec.step == step]
            name, paths = step.replace("-", "_"), [self._paths.get(record.key, Path()) for record in records]
            facts = [_facts(r) | {"filename": str(path)} for r, path in zip(records, paths, strict=True)]
            self._db.register(f"{name}_tasks", _table(facts))
            if any(record.rows for record in records):
                files = [path for path, record in zip(paths, records, strict=True) if record.rows]
                rows = sql_of_rows(files)
                self._show(name, rows)
                if len(files) > FEW:
                    self._scattered[name] = rows
        self._views_are_current = True

    def _show(self, name: str, rows: str) -> None:
        self._db.execute(
            f'CREATE OR REPLACE VIEW "{name}" AS SELECT t.*, r.* EXCLUDE (filename) '
            f"FROM ({rows}) r JOIN {name}_tasks t ON t.filename = r.filename"
        )

    def _gather(self, sql: str) -> None:
        """Copy the rows of the steps that a query names into one file each, so that thousands are opened once."""
        for name in [name for name in self._scattered if re.search(rf"\b{name}\b", sql)]:
            file = quoted(Path(self._folder, f"{name}.parquet"))
            self._db.execute(f"COPY ({self._scattered[name]}) TO {file} (FORMAT parquet, COMPRESSION lz4_raw)")
            self._show(name, f"SELECT * FROM read_parquet({file})")
            del self._scattered[name]


def _table(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    names = dict.fromkeys(key for row in rows for key in row)
    return pa.table({key: [row.get(key) for row in rows] for key in names})


def _facts(record: TaskRecord) -> dict[str, object]:
    """Return a task as one flat row of roles, options and facts; the role ``metric`` becomes the column ``metric``."""
    roles = {role.replace(".", "_"): ref.label for role, ref in record.spec.components.items()}
    return {"task": record.key, **roles, **record.spec.options, **record.facts}
