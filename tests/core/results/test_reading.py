"""Views over results: a step whose tasks differ in options and roles has the columns of all of them."""

import numpy as np

from imharness.results.identity import ComponentRef
from imharness.results.query import ResultQuery
from imharness.results.records import TaskRecord, TaskSpec
from imharness.results.store import Store


def record(store: Store, key: str, options: dict, roles: tuple[str, ...]) -> TaskRecord:
    components = {
        r: ComponentRef(kind="metric", id=f"x/{r}", version="1", label=f"x/{r}", parameters={}) for r in roles
    }
    spec = TaskSpec(
        track="x/t", step="one-step", version="1", components=components, options=options, limit=None, seed=0, needs={}
    )
    bare = TaskRecord(key=key, spec=spec, status="done", started="", seconds=0.0, device="", versions={})
    return store.commit(bare, {"score": np.arange(2.0)}, {})


def test_tasks_that_differ_in_options_share_one_view(tmp_path) -> None:
    store = Store(tmp_path)
    records = [
        record(store, "a" * 64, {"attacked": False}, ("m",)),
        record(store, "b" * 64, {"attacked": True, "method": "z"}, ("m", "n")),
    ]
    query = ResultQuery(store, records)
    found = query("SELECT attacked, method, m, n, score FROM one_step ORDER BY ALL")
    assert found["method"].tolist() == [None, None, "z", "z"]
    assert found["n"].tolist() == [None, None, "x/n", "x/n"]
    assert query("SELECT count(*) AS n FROM one_step_tasks")["n"].tolist() == [2]
