"""SQL over finished results: one DuckDB view per step, streamed from the Parquet files."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from imharness.results.records import TaskRecord
from imharness.results.store import Store
from imharness_blocks.blocks import Blocks
from imharness_blocks.rows import made_of

MEMORY = "1GB"
"""What the database may hold in memory; rows that become arrays are not counted."""
AT_ONCE = 2**17
"""Rows that are looked at together."""


class ResultQuery:
    """The `Query` that tracks make their tables with.

    `components`: one mapping of facts for each component that took part, for the view ``components``. What does not
    fit into `MEMORY` goes to a temporary folder, which is removed with the query.
    """

    def __init__(
        self, store: Store, records: Iterable[TaskRecord], components: Sequence[Mapping[str, object]] = ()
    ) -> None:
        folder = tempfile.mkdtemp(prefix="imharness-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._db = duckdb.connect(":memory:", config={"threads": 2, "memory_limit": MEMORY, "temp_directory": folder})
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
        facts = [_facts(record) | {"filename": _file(store, record)} for record in records]
        self._db.register(f"{name}_tasks", _table(facts))
        with_rows = [_file(store, record) for record in records if record.rows is not None]
        if with_rows:
            self._db.execute(
                f'CREATE VIEW "{name}" AS SELECT t.*, r.* EXCLUDE (filename) FROM ({_rows(with_rows)}) r '
                f"JOIN {name}_tasks t ON t.filename = r.filename"
            )


def _rows(paths: Sequence[str]) -> str:
    """Return the SQL that reads files. Those with the same columns are read as one, so that only one is asked for
    its columns whenever the SQL is used."""
    alike: dict[str, list[str]] = {}
    for path in paths:
        alike.setdefault(pq.read_schema(path).to_string(), []).append("'" + path.replace("'", "''") + "'")
    return " UNION ALL BY NAME ".join(
        f"SELECT * FROM read_parquet([{', '.join(own)}], filename = true)" for own in alike.values()
    )


def _table(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    names = dict.fromkeys(key for row in rows for key in row)
    return pa.table({key: [row.get(key) for row in rows] for key in names})


def _file(store: Store, record: TaskRecord) -> str:
    return str(store.path_of(record.rows)) if record.rows is not None else ""


def _facts(record: TaskRecord) -> dict[str, object]:
    """Return a task as one flat row: roles, options and facts; role ``metric`` becomes column ``metric``."""
    roles = {role.replace(".", "_"): ref.label for role, ref in record.spec.components.items()}
    return {"task": record.key, **roles, **record.spec.options, **record.facts}
