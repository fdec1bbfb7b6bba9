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
    """Return the configuration of a run: the tasks of the run replace earlier ones with the same address.

    The run may still be going on: tasks that are neither done nor failed are waiting. A damaged configuration is
    written again with this run alone; `damaged_sweeps` says so.

    Args:
        store: the store with the earlier runs.
        graph: what was planned.
        done: the keys of the tasks that have a result.
        failed: key of a task -> why it failed.
        profile, seed, limit, command: of this run.
    """
    track, name = graph.track, graph.run_configuration
    old = None
    with suppress(DamagedError):
        old = store.sweep(track.info.id, name)
    all_sweeps = [*store.sweeps(track.info.id, without=name), *([old] if old else [])]

    # Tasks: address -> key. Planned ones come first in the order of the plan, whatever order they were computed in.
    planned = {task.address: key for key, task in graph.tasks.items()}
    combined = dict(old.tasks) if old else {}
    combined |= {address: key for address, key in planned.items() if key in done}
    tasks = {address: combined[address] for address in (*planned, *combined) if address in combined}

    # Failures: address -> why. An earlier one stays until the task has a result.
    new_failures = {task.address: failed[key] for key, task in graph.tasks.items() if key in failed}
    failures = {**(old.failed if old else {}), **new_failures}

    # Gaps: what is missing -> the gap. An earlier one stays unless its component takes part in this run.
    planned_labels = {ref.label for task in graph.tasks.values() for ref in task.spec.components.values()}
    all_gaps = [*(old.missing if old else ()), *graph.missing.values()]
    gaps = {gap.what: gap for gap in all_gaps if gap.what not in planned_labels}
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
        number=1 + max((sweep.number for sweep in all_sweeps), default=0),
        tasks={
            address: key
            for address, key in tasks.items()
            if address not in new_failures and address not in graph.missing
        },
        missing=tuple(gaps.values()),
        failed={address: line for address, line in failures.items() if address in new_failures or address not in tasks},
    )


def damaged_sweeps(store: Store, graphs: Iterable[Graph]) -> Iterator[str]:
    """Yield a line for each damaged configuration of these graphs, which a run will write again.

    Raises `DamagedError` if a configuration of another run is damaged, so that nothing is computed before that is
    known.
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
