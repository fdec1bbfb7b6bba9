"""A worker on its node: it checks that it would compute the same, into the same store, and then computes."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imharness.errors import HarnessError, Unavailable
from imharness.extending import Store, TaskRecord, TaskSpec, Worker, WorkerConfig, add_folder, digest
from imharness_ray.parity import differences, facts

AHEAD_S = 2.0
"""How long a worker continues with tasks that it was given together, s."""
ABSENT = "absent"
"""The status of a task that needs weights or data that are not on the node."""
ENDING = (ABSENT, "store")
"""The statuses after which no further task is begun: the node, or its store, lacks something."""


class Unlike(HarnessError):
    """A node differs from the machine on which the run was started."""


def key_of_note(name: str) -> str:
    """Return the key of the record that `note` writes."""
    return digest(["note", name])


def note(store: Store, name: str) -> str:
    """Write an empty record, which only shows that it exists; return its key."""
    spec = TaskSpec(track="", step="", version="", components={}, options={}, limit=None, seed=0, needs={})
    now, key = datetime.now(UTC).isoformat(timespec="seconds"), key_of_note(name)
    store.commit(TaskRecord(key=key, spec=spec, status="done", started=now, seconds=0, device="", versions={}), {}, {})
    return key


class RemoteWorker:
    """Computes tasks in an actor of Ray.

    While a cluster has no room for a further worker, Ray collects garbage in all workers at the same moment, every ten
    seconds. The objects that exist at the start, which are nearly all, are left out of that collection.

    Args:
        config: the fields of a `WorkerConfig`.
        wanted: `facts` of the machine that the run was started on, for these `packages`.
        greeting: the key of a record that the run wrote into its store; one called `name` is written here in answer.
        folders: where assets are looked for first, before the folders of this node.

    Raises:
        Unlike: something differs that changes results, or the store is a different one.
        StoreError: the store cannot be written from here.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        wanted: Mapping[str, str],
        packages: Sequence[str],
        greeting: str,
        folders: Sequence[str],
        name: str,
    ) -> None:
        for folder in reversed(folders):
            add_folder(Path(folder))
        apart = differences(wanted, facts(packages))
        if apart:
            raise Unlike(apart)
        store = Store(config["store"])
        if store.record(greeting) is None:
            raise Unlike(f"the store {config['store']} is a different one there: what this run wrote is not in it")
        note(store, name)
        self._worker = Worker(WorkerConfig(**config))
        self._checked = set[str]()
        gc.collect()
        gc.freeze()

    def run(self, tasks: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
        """Compute tasks, each a key and JSON, one after the other; begin no further one after `AHEAD_S`.

        Returns, for each task that was begun, its key and the status and line of its `TaskResult`, or `ABSENT` and what
        is absent.
        """
        since, reports = time.monotonic(), list[tuple[str, str, str]]()
        for key, spec in tasks:
            reports.append((key, *self._one(key, spec)))
            if reports[-1][1] in ENDING or time.monotonic() - since > AHEAD_S:
                break
        return reports

    def _one(self, key: str, spec: str) -> tuple[str, str]:
        task = TaskSpec.model_validate_json(spec)
        try:
            self._require(task)
        except Unavailable as error:
            return ABSENT, str(error)
        result = self._worker.run(key, task)
        return result.status, result.line

    def _require(self, task: TaskSpec) -> None:
        """Raise `Unavailable` unless this node has what the components of a task need; each is checked once."""
        for role, ref in task.components.items():
            key = f"{ref.kind} {ref.label} {dict(ref.parameters)}"
            if key not in self._checked:
                try:
                    self._worker.cache.component(task, role).require()
                except Unavailable:
                    raise
                except Exception:  # the task itself then fails, and its record says why
                    return
                self._checked.add(key)
