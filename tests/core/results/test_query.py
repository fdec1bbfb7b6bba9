"""A query over results tells in one line what it lacks."""

from pathlib import Path

import duckdb
import pytest

from imharness.errors import StoreError
from imharness.results.query import ResultQuery
from imharness.results.store import Store

SORTED = "SELECT hash(i)::VARCHAR AS name, i AS score, 'a' AS entry FROM range(2000000) r(i) ORDER BY name"


def test_a_query_says_where_room_is_lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = duckdb.connect

    def small(name: str, config: dict) -> duckdb.DuckDBPyConnection:
        connection = connect(name, config=config | {"memory_limit": "30MB"})
        connection.execute("SET max_temp_directory_size = '2MB'")
        return connection

    monkeypatch.setattr(duckdb, "connect", small)
    query = ResultQuery(Store(tmp_path), [])
    with pytest.raises(StoreError, match=r"no room for tables in .*; set TMPDIR elsewhere"):
        query(SORTED)
    with pytest.raises(StoreError, match=r"no room for tables in .*; set TMPDIR elsewhere"):
        query.blocks(SORTED, entry="entry")
