"""What a run tells a CI of its cells."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from imharness.components.registry import Registry
from imharness.errors import DamagedError, HarnessError
from imharness.exports.ci import Cell, github_lines, junit
from imharness.planning.plan import Graph
from imharness.results.records import TaskRecord
from imharness.results.store import Store
from imharness.running.sweep import RunResult


def tell_ci(
    file: Path | None, graphs: Sequence[Graph], result: RunResult, store: Store, registry: Registry
) -> list[str]:  # fmt: skip
    """Write a JUnit file, if one is wanted; return lines for GitHub Actions, none where this is no job of theirs."""
    on_github = os.environ.get("GITHUB_ACTIONS") == "true"
    if file is None and not on_github:
        return []
    cells = list(_cells(graphs, result, store, registry, every=file is not None))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(junit(cells))
    return github_lines(cells) if on_github else []


def _cells(
    graphs: Sequence[Graph], result: RunResult, store: Store, registry: Registry, *, every: bool
) -> Iterator[Cell]:  # fmt: skip
    """Yield the cells of a run, or the failed ones alone."""
    keys = [key for graph in graphs for key in graph.tasks if every or key in result.failed]
    records = {key: record for key, record in store.records(keys) if not isinstance(record, DamagedError)}
    for graph in graphs:
        track = graph.track.info.id
        for key, task in graph.tasks.items():
            record, name = records.get(key), task.address.partition(" ")[2] or task.address
            facts = {"track": track, "step": task.spec.step, "name": name}
            if key in result.failed:
                failure = record.failure if record is not None else None
                details = f"{failure.error}: {failure.message}\n{failure.traceback}" if failure else ""
                seconds, where = (record.seconds, _file_of(record, registry)) if record is not None else (0.0, "")
                yield Cell(
                    **facts, status="failed", why=result.failed[key], details=details, seconds=seconds, file=where
                )
            elif every and key in result.done:
                yield Cell(**facts, status="done", seconds=record.seconds if record is not None else 0.0)
        if every:
            for address, gap in graph.missing.items():
                step, _, name = address.partition(" ")
                yield Cell(
                    track=track, step=step, name=name or address, status="missing", why=f"{gap.what}: {gap.reason}"
                )


def _file_of(record: TaskRecord, registry: Registry) -> str:
    """Return the file of the component that failed, relative to this folder; empty where it lies elsewhere."""
    who = record.failure.who if record.failure is not None else ""
    for ref in record.spec.components.values():
        if who in (ref.label, ref.id):
            try:
                module = type(registry.revive(ref)).__module__
            except (HarnessError, ValueError):
                return ""
            spec = importlib.util.find_spec(module)
            path = Path(spec.origin) if spec is not None and spec.origin else Path()
            here = Path(os.environ.get("GITHUB_WORKSPACE", ".")).resolve()
            return path.relative_to(here).as_posix() if path.is_relative_to(here) else ""
    return ""
