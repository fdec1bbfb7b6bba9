"""SQL over finished results: one DuckDB view per step, streamed from the Parquet files."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from imharness.errors import DamagedError, StoreError
from imharness.results.blocks import Blocks
from imharness.results.rows import made_of
from imharness.results.storage.cells import ALONE, sql_of_rows
from imharness.results.storage.segments import CELL
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
MEMORY = "300MB"
"""The most that the database may hold in memory; rows that become arrays do not count."""
AT_ONCE = 2**17
"""The number of rows in a batch."""


class ResultQuery:
    """The `Query` from which tracks make their tables.

    Joins are carried out as they are written: the rows of the first table stream past the other tables. The order that
    the database would choose itself may hold all rows of a step in memory. One thread does all sums, so that they are
    the same each time.

    `components` has one mapping of facts for each component that took part, for the view ``components``. All queries of
    a process share a database, and none sees what another one does. Whatever does not fit into `MEMORY` goes to a
    temporary folder, which is removed when the process ends. If another process packs rows while they are read, they
    are read again at their new place.
    """

    def __init__(
        self, store: Store, records: Iterable[TaskRecord], components: Sequence[Mapping[str, object]] = ()
    ) -> None:
        import duckdb  # loaded here because plans need no tables

        self._db = _connected()
        self._store, self._records, self._duckdb = store, list(records), duckdb
        self._places, self._viewed = store.row_files(self._records), dict[str, tuple[Path, int]]()
        self._steady(lambda: None)
        if components:
            self._db.register("components", _table(components))

    @property
    def steps(self) -> frozenset[str]:
        return frozenset(record.spec.step for record in self._records)

    def blocks(self, sql: str, **columns: Any) -> Blocks:
        return self._steady(
            lambda: made_of(lambda select: self._db.sql(select).to_arrow_reader(AT_ONCE), sql, **columns)
        )

    def __call__(self, sql: str, /) -> dict[str, npt.NDArray[Any]]:
        table = self._steady(lambda: self._table(sql))
        return {name: np.asarray(table[name].to_numpy(zero_copy_only=False)) for name in table.column_names}

    def _table(self, sql: str) -> pa.Table:
        found = self._db.sql(sql)
        return pa.table({}) if found is None else found.to_arrow_table()

    def _steady(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; raises `DamagedError` if rows are gone, `StoreError` if they cannot be read."""
        while True:
            try:
                if self._viewed is not self._places:
                    self._view()
                return work()
            except (self._duckdb.IOException, OSError) as error:
                before, self._places = self._places, self._store.row_files(self._records)
                if self._places == before:
                    if gone := [path for path, _ in before.values() if not path.exists()]:
                        raise DamagedError(f"{gone[0]} is missing; it will be computed again") from None
                    raise StoreError(f"rows cannot be read: {error}") from error
            except self._duckdb.OutOfMemoryException as error:
                raise StoreError(f"no room for tables in {tempfile.gettempdir()}; set TMPDIR elsewhere") from error

    def _view(self) -> None:
        for step in sorted(self.steps):
            own = [record for record in self._records if record.spec.step == step]
            name, places = step.replace("-", "_"), [self._places.get(record.key, (Path(), ALONE)) for record in own]
            facts = [
                _facts(r) | {"filename": str(path), CELL: cell} for r, (path, cell) in zip(own, places, strict=True)
            ]
            self._db.register(f"{name}_tasks", _table(facts))
            files = [place for place, record in zip(places, own, strict=True) if record.rows is not None]
            if files:
                self._db.execute(
                    f'CREATE OR REPLACE TEMP VIEW "{name}" AS '
                    f"SELECT t.* EXCLUDE ({CELL}), r.* EXCLUDE (filename, {CELL}) "
                    f"FROM ({sql_of_rows(files)}) r "
                    f"JOIN {name}_tasks t ON t.filename = r.filename AND t.{CELL} = r.{CELL}"
                )
        self._viewed = self._places


_DATABASES: dict[tuple[int, str], duckdb.DuckDBPyConnection] = {}
"""The database of this process, by its number and by where its temporary folder is."""
_STARTING = threading.Lock()


def _connected() -> duckdb.DuckDBPyConnection:
    """Return a connection whose tables are its own, to the database of this process, which takes 15 ms to start."""
    import duckdb

    place = os.getpid(), tempfile.gettempdir()
    with _STARTING:
        if place in _DATABASES:
            with suppress(duckdb.FatalException):  # after which a database is of no more use
                return _prepared(_DATABASES[place])
        folder = tempfile.mkdtemp(prefix="imharness-")
        config: dict[str, Any] = {"threads": 1, "memory_limit": MEMORY, "temp_directory": folder}
        # Files are read anew, since another process may have written them again since the last query.
        started = duckdb.connect(":memory:", config={**config, "enable_external_file_cache": False})
        weakref.finalize(started, _removed, folder, os.getpid())
        _DATABASES[place] = started
        return _prepared(started)


def _prepared(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    return database.cursor().execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")


def _removed(folder: str, process: int) -> None:
    """Remove the folder of a database, unless this process is a copy of the one that it belongs to."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _table(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    names = dict.fromkeys(key for row in rows for key in row)
    return pa.table({key: [row.get(key) for row in rows] for key in names})


def _facts(record: TaskRecord) -> dict[str, object]:
    """Return a task as one flat row of roles, options and facts; the role ``metric`` becomes the column ``metric``."""
    roles = {role.replace(".", "_"): ref.label for role, ref in record.spec.components.items()}
    return {"task": record.key, **roles, **record.spec.options, **record.facts}
