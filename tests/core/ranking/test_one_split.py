"""Of tasks that differ in their secret split alone, one split enters a table."""

from imharness.planning.secret import OPTION
from imharness.ranking.current import one_split
from imharness.results.identity import ComponentRef
from imharness.results.tasks import TaskRecord, TaskSpec


def record(key: str, evaluator: str, secret: str, started: str) -> TaskRecord:
    """Return a record on the split of a seed with the digest `secret`, or on the public split if that is empty."""
    ref = ComponentRef(kind="evaluator", id=evaluator, version="1", label=evaluator, parameters={})
    options = {"split": 0, **({OPTION: secret} if secret else {})}
    spec = TaskSpec(
        track="a/b",
        step="evaluate",
        version="1",
        components={"evaluator": ref},
        options=options,
        limit=None,
        seed=0,
        needs={},
    )
    return TaskRecord(key=key, spec=spec, status="done", started=started, seconds=0, device="", versions={})


def test_the_split_of_the_run_counts_and_of_others_the_newest() -> None:
    records = [
        record("public", "a/known", "", "2026-01-01"),
        record("hidden", "a/known", "s1", "2026-02-01"),
        record("old", "b/stranger", "s1", "2026-01-01"),
        record("new", "b/stranger", "s2", "2026-02-01"),
        record("alone", "c/other", "s1", "2026-01-01"),
    ]
    assert [r.key for r in one_split(records, "")] == ["public", "new", "alone"]
    assert [r.key for r in one_split(records, "s1")] == ["hidden", "old", "alone"]
