"""Records of tasks for tests of the store."""

from imharness.results.identity import ComponentRef, digest
from imharness.results.tasks import TaskRecord, TaskSpec


def record(number: int = 0, started: str = "2026-01-01") -> TaskRecord:
    """Return the record of a finished task of one metric; `number` is its only option."""
    metric = ComponentRef(kind="metric", id="acme/m", version="1", label="acme/m", parameters={})
    options = {"number": number}
    spec = TaskSpec(
        track="acme/t",
        step="score",
        version="1",
        components={"metric": metric},
        options=options,
        limit=None,
        seed=0,
        needs={},
    )
    return TaskRecord(
        key=digest(spec.identity()), spec=spec, status="done", started=started, seconds=1.0, device="cpu", versions={}
    )


def bare(number: int) -> TaskRecord:
    """Return the record of a finished task whose key is its number in 64 hexadecimal digits."""
    return record(number).model_copy(update={"key": f"{number:064x}"})
