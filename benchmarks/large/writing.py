"""Writes tasks of a track into a store, as a run leaves them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.sweeps import Sweep
from imharness.results.tasks import TaskRecord, TaskSpec


class Finished:
    """The finished tasks of one track. `rows`: how many there are of each step."""

    def __init__(self, root: Path, track: str) -> None:
        self._store, self._track, self._tasks = Store(root), track, dict[str, str]()
        self.rows: dict[str, int] = {}

    def add(
        self,
        step: str,
        roles: Mapping[str, str],
        rows: Mapping[str, Any],
        *,
        options: Mapping[str, str | int | float | bool] | None = None,
        facts: Mapping[str, float] | None = None,
    ) -> None:
        """Write a task. `roles`: the label of the component in each role. `rows`: column -> values."""
        components = {
            role: ComponentRef(kind=role, id=label, version="1", label=label, parameters={"of": label})
            for role, label in roles.items()
        }
        spec = TaskSpec(
            track=self._track,
            step=step,
            version="1",
            components=components,
            options=options or {},
            limit=None,
            seed=0,
            needs={},
        )
        record = TaskRecord(
            key=digest(spec.identity()),
            spec=spec,
            status="done",
            started="2026",
            seconds=0.1,
            device="cpu",
            versions={},
            facts=facts or {},
        )
        done = self._store.commit(record, rows, {})
        self._tasks[done.key] = done.key
        self.rows[step] = self.rows.get(step, 0) + done.n_rows

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self._tasks)

    def close(self) -> None:
        """Write the sweep, the list of the tasks."""
        self._store.save_sweep(
            Sweep(
                track=self._track,
                title="Large",
                measures="",
                profile="large",
                run_configuration="large",
                seed=0,
                limit=None,
                command="",
                finished="2026",
                missing=(),
                tasks=self._tasks,
            )
        )
