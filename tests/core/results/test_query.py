"""Queries over results: an error says where room is lacking, and rows of many files are those of each file."""

import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pytest
from tests.core.results.records import record

from imharness.errors import StoreError
from imharness.results import query
from imharness.results.query import ResultQuery
from imharness.results.store import Store

SORTED = "SELECT hash(i)::VARCHAR AS name, i AS score, 'a' AS entry FROM range(2000000) r(i) ORDER BY name"
"""It sorts two million rows, which takes more than 30 MB of memory and 2 MB of disk."""


def test_a_query_says_where_room_is_lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = duckdb.connect

    def small(name: str, config: dict) -> duckdb.DuckDBPyConnection:
        connection = connect(name, config=config | {"memory_limit": "30MB"})
        connection.execute("SET max_temp_directory_size = '2MB'")
        return connection

    monkeypatch.setattr(duckdb, "connect", small)
    asking = ResultQuery(Store(tmp_path), [])
    with pytest.raises(StoreError, match=r"no room for tables in .*; set TMPDIR elsewhere"):
        asking(SORTED)
    with pytest.raises(StoreError, match=r"no room for tables in .*; set TMPDIR elsewhere"):
        asking.blocks(SORTED, entry="entry")


def test_rows_of_many_files_are_those_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some tasks have a column that the others lack: the rows of the others have no number there."""
    store, records = Store(tmp_path), []
    for number in range(5):
        rows = {"name": [f"{number}-{i}" for i in range(3)], "score": [number + i / 7 for i in range(3)]}
        further = {"cost": [float(i) for i in range(3)]} if number % 2 else {}
        records.append(store.commit(record(number), rows | further, {}))
    wanted = "SELECT number, name, score, cost FROM score WHERE number > 0"
    each = ResultQuery(store, records)(wanted)
    monkeypatch.setattr(query, "FEW", 2)
    (temporary := tmp_path / "author's files").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    gathered = ResultQuery(store, records)
    for _ in range(2):
        again = gathered(wanted)
        assert again.keys() == each.keys()
        for name, column in again.items():
            np.testing.assert_array_equal(column, each[name])
        for file in store.root.glob("tasks/*/*"):
            file.unlink(missing_ok=True)  # the files of tasks are read once
