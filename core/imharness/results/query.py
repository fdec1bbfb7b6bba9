"""SQL over finished results: one DuckDB view per step, streamed from the Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from imharness.results.blocks import Blocks, made_of
from imharness.results.records import TaskRecord
from imharness.results.store import Store


class ResultQuery:
    """The `Query` that tracks make their tables with.

    `components`: one mapping of facts for each component that took part, for the view ``components``.
    """

    def __init__(
        self, store: Store, records: Iterable[TaskRecord], components: Sequence[Mapping[str, object]] = ()
    ) -> None:
        self._db = duckdb.connect(":memory:")
        self._db.execute("SET threads = 2")
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
        return made_of(self._table, sql, **columns)

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
            listed = ", ".join("'" + path.replace("'", "''") + "'" for path in with_rows)
            self._db.execute(
                f'CREATE VIEW "{name}" AS SELECT t.*, r.* EXCLUDE (filename) FROM '
                f"read_parquet([{listed}], filename = true, union_by_name = true) r "
                f"JOIN {name}_tasks t ON t.filename = r.filename"
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
