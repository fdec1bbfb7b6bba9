"""Numbers of two versions never share a table."""

import pytest

from imharness.ranking.board import newest_only
from imharness.results.identity import ComponentRef, digest
from imharness.results.records import TaskRecord, TaskSpec


def record(metric: str, defense: str, step: str = "1", started: str = "2026-01-01") -> TaskRecord:
    refs = {
        kind: ComponentRef(kind=kind, id=f"acme/{kind}", version=version, label=f"acme/{kind}", parameters={})
        for kind, version in (("metric", metric), ("defense", defense))
    }
    spec = TaskSpec(
        track="t/t", step="evaluate", version=step, components=refs, options={}, limit=None, seed=0, needs={}
    )
    return TaskRecord(key=digest([metric, defense, step, started]), spec=spec, status="done", started=started,
                      seconds=0.0, device="cpu", versions={})  # fmt: skip


def test_records_of_one_version_all_stay() -> None:
    records = [record("1", "1"), record("1", "1", started="2026-01-02")]
    assert newest_only(records) == (records, [])


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (record("1", "1"), record("2", "1", started="2026-02-01"), "1 cell of acme/metric"),
        (record("1", "1"), record("1", "2", started="2026-02-01"), "1 cell of acme/defense"),
        (record("1", "1", step="1"), record("1", "1", step="2", started="2026-02-01"), "1 cell of step evaluate"),
    ],
)
def test_cells_of_an_older_version_are_left_out_and_named(old: TaskRecord, new: TaskRecord, what: str) -> None:
    kept, gaps = newest_only([old, new])
    assert kept == [new]
    (gap,) = gaps
    assert gap.what == what
    assert "older version" in gap.reason
    assert gap.remedy == "harness run --all"
