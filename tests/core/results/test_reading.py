"""Views over results: a step whose tasks differ in options and roles has the columns of all of them."""

import numpy as np

from imharness.results.identity import ComponentRef
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec


def record(
    store: Store, key: str, options: dict, roles: tuple[str, ...], rows: dict | None = None, step: str = "one-step"
) -> TaskRecord:
    components = {
        r: ComponentRef(kind="metric", id=f"x/{r}", version="1", label=f"x/{r}", parameters={}) for r in roles
    }
    spec = TaskSpec(
        track="x/t", step=step, version="1", components=components, options=options, limit=None, seed=0, needs={}
    )
    bare = TaskRecord(key=key, spec=spec, status="done", started="", seconds=0.0, device="", versions={})
    return store.commit(bare, rows or {"score": np.arange(2.0)}, {})


def test_tasks_that_differ_in_options_share_one_view(tmp_path) -> None:
    store = Store(tmp_path)
    records = [
        record(store, "a" * 64, {"attacked": False}, ("m",)),
        record(store, "b" * 64, {"attacked": True, "method": "z"}, ("m", "n")),
    ]
    query = ResultQuery(store, records)
    rows = query("SELECT attacked, method, m, n, score FROM one_step ORDER BY ALL")
    assert rows["method"].tolist() == [None, None, "z", "z"]
    assert rows["n"].tolist() == [None, None, "x/n", "x/n"]
    assert query("SELECT count(*) AS n FROM one_step_tasks")["n"].tolist() == [2]


def test_rows_of_the_first_table_stream_past_the_others_in_their_order(tmp_path) -> None:
    """Rows keep the order of the table that the query names first.

    DuckDB's own order of joins would hold the smaller table in memory and stream the larger one, which this query names
    last.
    """
    store, few = Store(tmp_path), np.array([30, 1, 2000, 7])
    query = ResultQuery(
        store,
        [
            record(store, "a" * 64, {}, ("m",), {"name": few}, "few"),
            record(store, "b" * 64, {}, ("m",), {"name": np.arange(5000)}, "many"),
        ],
    )
    assert query("SELECT name FROM few JOIN many USING (name)")["name"].tolist() == few.tolist()
