"""Merges a run into its configuration: tasks of earlier runs stay unless this run computed them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from imharness.errors import DamagedError
from imharness.planning.plan import Graph
from imharness.results.store import Store
from imharness.results.sweeps import Sweep


def merged_sweep(
    store: Store,
    graph: Graph,
    *,
    done: set[str],
    failed: dict[str, str],
    profile: str,
    seed: int,
    limit: int | None,
    command: str,
) -> Sweep:
    """Return the configuration with this run: its tasks replace earlier ones with the same address.

    `done`: the keys of tasks with a result; `failed`: key -> why. The run may still be going on; tasks that are neither
    done nor failed are waiting. A configuration that is damaged is written anew, of which `damaged_sweeps` tells.
    """
    track, name = graph.track, graph.run_configuration
    old = None
    with suppress(DamagedError):
        old = store.sweep(track.info.id, name)
    others = [*store.sweeps(track.info.id, without=name), *([old] if old else [])]
    planned = {task.address: key for key, task in graph.tasks.items()}
    combined = {**(old.tasks if old else {}), **{a: k for a, k in planned.items() if k in done}}
    tasks = {a: combined[a] for a in (*planned, *combined) if a in combined}  # whatever order they were computed in
    lines = {task.address: failed[key] for key, task in graph.tasks.items() if key in failed}
    old_lines = old.failed if old else {}
    planned_labels = {ref.label for task in graph.tasks.values() for ref in task.spec.components.values()}
    gaps = {m.what: m for m in [*(old.missing if old else ()), *graph.missing.values()] if m.what not in planned_labels}
    return Sweep(
        track=track.info.id,
        title=track.title,
        measures=track.measures,
        profile=profile,
        secret=graph.secret,
        run_configuration=name,
        set_up=graph.set_up,
        seed=seed,
        limit=limit,
        command=command,
        waiting=len(graph.tasks.keys() - done - failed.keys()),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        number=1 + max((sweep.number for sweep in others), default=0),
        tasks={a: k for a, k in tasks.items() if a not in lines and a not in graph.missing},
        missing=tuple(gaps.values()),
        failed={a: line for a, line in {**old_lines, **lines}.items() if a in lines or a not in tasks},
    )


def damaged_sweeps(store: Store, graphs: Iterable[Graph]) -> Iterator[str]:
    """Yield a line for each configuration of these graphs that is damaged, and that a run therefore writes anew.

    Raises `DamagedError` for one of another run, before anything is computed.
    """
    for graph in graphs:
        id, name = graph.track.info.id, graph.run_configuration
        store.sweeps(id, without=name)
        try:
            store.sweep(id, name)
        except DamagedError as error:
            yield str(error)


def without_old_budget(sweep: Sweep, graph: Graph) -> Sweep:
    """Return the sweep without gaps that only the budget of an earlier run caused."""
    now = {gap.what for gap in graph.missing.values()}
    gaps = tuple(gap for gap in sweep.missing if gap.what in now or gap not in sweep.left_out)
    return sweep.model_copy(update={"missing": gaps})
