"""SQL over finished results: one DuckDB view per step, streamed from the Parquet files."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from imharness.results.records import TaskRecord
from imharness.results.store import Store
from imharness_blocks.blocks import Blocks
from imharness_blocks.rows import made_of
from imharness_storage.cells import ALONE
from imharness_storage.segments import CELL

MEMORY = "300MB"
"""What the database may hold in memory; rows that become arrays are not counted."""
AT_ONCE = 2**17
"""Rows that are looked at together."""


class ResultQuery:
    """The `Query` that tracks make their tables with.

    Joins are carried out as they are written, rows of the first table streaming past the others in their order; what
    the database would choose itself holds as many rows in memory as a step has. One thread adds numbers up, so that
    sums are the same each time.

    `components`: one mapping of facts for each component that took part, for the view ``components``. What does not
    fit into `MEMORY` goes to a temporary folder, which is removed with the query.
    """

    def __init__(
        self, store: Store, records: Iterable[TaskRecord], components: Sequence[Mapping[str, object]] = ()
    ) -> None:
        import duckdb  # here, as plans need no tables

        folder = tempfile.mkdtemp(prefix="imharness-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._db = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": MEMORY, "temp_directory": folder})
        self._db.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        steps: dict[str, list[TaskRecord]] = {}
        for record in records:
            steps.setdefault(record.spec.step, []).append(record)
        self._steps = frozenset(steps)
        for step, group in steps.items():
            self._add(store, step.replace("-", "_"), group)
        if components:
            self._db.register("components", _table(components))

    @property
    def steps(self) -> frozenset[str]:
        return self._steps

    def blocks(self, sql: str, **columns: Any) -> Blocks:
        return made_of(lambda select: self._db.sql(select).to_arrow_reader(AT_ONCE), sql, **columns)

    def __call__(self, sql: str, /) -> dict[str, npt.NDArray[Any]]:
        table = self._table(sql)
        return {name: np.asarray(table[name].to_numpy(zero_copy_only=False)) for name in table.column_names}

    def _table(self, sql: str) -> pa.Table:
        found = self._db.sql(sql)
        return pa.table({}) if found is None else found.to_arrow_table()

    def _add(self, store: Store, name: str, records: list[TaskRecord]) -> None:
        with_rows = [record for record in records if record.rows is not None]
        files = {record.key: file for record, file in zip(with_rows, store.row_files(with_rows), strict=True)}
        places = {record.key: files.get(record.key, ("", ALONE)) for record in records}
        facts = [_facts(r) | {"filename": str(places[r.key][0]), CELL: places[r.key][1]} for r in records]
        self._db.register(f"{name}_tasks", _table(facts))
        if files:
            self._db.execute(
                f'CREATE VIEW "{name}" AS SELECT t.* EXCLUDE ({CELL}), r.* EXCLUDE (filename, {CELL}) '
                f"FROM ({_rows(files.values())}) r "
                f"JOIN {name}_tasks t ON t.filename = r.filename AND t.{CELL} = r.{CELL}"
            )


def _rows(files: Iterable[tuple[Path, int]]) -> str:
    """Return the SQL that reads the files of tasks; see `Store.row_files`. The column `_cell` says whose a row is.

    Files with the same columns are read as one, so that only one is asked for its columns whenever the SQL is used.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for path, cell in dict(files).items():
        select = f"SELECT *, {ALONE} AS {CELL}" if cell == ALONE else "SELECT *"
        quoted = "'" + str(path).replace("'", "''") + "'"
        alike.setdefault((select, pq.read_schema(path).to_string()), []).append(quoted)
    return " UNION ALL BY NAME ".join(
        f"{select} FROM read_parquet([{', '.join(own)}], filename = true)" for (select, _), own in alike.items()
    )


def _table(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    names = dict.fromkeys(key for row in rows for key in row)
    return pa.table({key: [row.get(key) for row in rows] for key in names})


def _facts(record: TaskRecord) -> dict[str, object]:
    """Return a task as one flat row: roles, options and facts; role ``metric`` becomes column ``metric``."""
    roles = {role.replace(".", "_"): ref.label for role, ref in record.spec.components.items()}
    return {"task": record.key, **roles, **record.spec.options, **record.facts}
