"""A query over results tells in one line what it lacks."""

import os
import tempfile
from pathlib import Path

import duckdb
import pytest

from imharness.errors import StoreError
from imharness.results import query as querying
from imharness.results.query import ResultQuery
from imharness.results.store import Store

SORTED = "SELECT hash(i)::VARCHAR AS name, i AS score, 'a' AS entry FROM range(2000000) r(i) ORDER BY name"


def test_a_query_says_where_room_is_lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = duckdb.connect

    def small(name: str, config: dict) -> duckdb.DuckDBPyConnection:
        found = connect(name, config=config | {"memory_limit": "30MB"})
        found.execute("SET max_temp_directory_size = '2MB'")
        return found

    monkeypatch.setattr(duckdb, "connect", small)
    monkeypatch.setattr(querying, "_DATABASES", {})
    query = ResultQuery(Store(tmp_path), [])
    with pytest.raises(StoreError, match=r"no room for tables in .*; set TMPDIR elsewhere"):
        query(SORTED)
    with pytest.raises(StoreError, match=r"no room for tables in .*; set TMPDIR elsewhere"):
        query.blocks(SORTED, entry="entry")


def test_queries_share_a_database_and_no_tables(tmp_path: Path) -> None:
    one, other = (ResultQuery(Store(tmp_path), [], [{"kind": kind}]) for kind in ("metric", "attack"))
    bare = ResultQuery(Store(tmp_path), [])
    for _ in range(2):
        assert one("SELECT kind FROM components")["kind"].tolist() == ["metric"]
        assert other("SELECT kind FROM components")["kind"].tolist() == ["attack"]
        with pytest.raises(duckdb.CatalogException):
            bare("SELECT kind FROM components")


def test_a_database_that_is_of_no_more_use_is_started_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def cursor(self) -> None:
            raise duckdb.FatalException("database has been invalidated")

    place = os.getpid(), tempfile.gettempdir()
    monkeypatch.setattr(querying, "_DATABASES", {place: Broken()})
    assert ResultQuery(Store(tmp_path), [])("SELECT 1 AS one")["one"].tolist() == [1]
    assert not isinstance(querying._DATABASES[place], Broken)
