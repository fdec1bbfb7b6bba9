"""Which tasks of a plan a submission needs, and on which split of the data each of them is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from imharness.contracts.component import Component
from imharness.contracts.track import Track
from imharness.planning.plan import Graph
from imharness.results.identity import ComponentRef


def _compared(graph: Graph, id: str, is_control: Callable[[ComponentRef], bool]) -> set[str]:
    """Return the tasks of one component, and those of the same others with no other of its kind but controls."""
    wanted = {key for key, task in graph.tasks.items() if any(r.id == id for r in task.spec.components.values())}
    if not wanted:
        return wanted
    references = [ref for key in wanted for ref in graph.tasks[key].spec.components.values()]
    used, kinds = {(r.kind, r.label) for r in references}, {r.kind for r in references if r.id == id}
    for key, task in graph.tasks.items():
        others = [ref for ref in task.spec.named().values() if ref.kind not in kinds]
        alike = [ref for ref in task.spec.named().values() if ref.kind in kinds]
        if all(map(is_control, alike)) and {(r.kind, r.label) for r in others} <= used:
            wanted.add(key)
    return wanted


def only_with(graph: Graph, ids: Collection[str], is_control: Callable[[ComponentRef], bool] | None) -> Graph:
    """Return the tasks in which one of these components takes part, and all that tables of them need.

    That is what they depend on, and with `is_control`, for each component the tasks of the same other components in
    which nothing of its kind takes part but controls: the clean scores and undefended attacks that a defense is
    compared with, and what it has to be better than.
    """
    task_keys = {k for k, t in graph.tasks.items() if any(ref.id in ids for ref in t.spec.components.values())}
    wanted = task_keys if is_control is None else task_keys.union(*(_compared(graph, id, is_control) for id in ids))
    waiting = list(wanted)
    while waiting:
        needs = set(graph.tasks[waiting.pop()].spec.needs.values()) - wanted
        wanted |= needs
        waiting += needs
    gaps = {address: gap for address, gap in graph.missing.items() if any(id in address for id in ids)}
    return replace(graph, tasks={key: t for key, t in graph.tasks.items() if key in wanted}, missing=gaps)


def concerns(track: Track, component: Component, tracks: Sequence[Track]) -> bool:
    """Say whether a component is planned in a track: not where others of its kind stand and another track has its own.

    So a distance of a stranger is not attacked behind every defense of no-reference metrics, where it decides nothing.
    """

    def has(other: Track) -> bool:
        return isinstance(component, other.own_objects.get(component.kind, ()))

    return component.kind not in track.own_objects or has(track) or not any(map(has, tracks))


def ids_of(components: Sequence[Component]) -> set[str]:
    """Return the ids of components."""
    return {component.info.id for component in components}


def by_kind(components: Sequence[Component]) -> dict[str, list[str]]:
    """Return components by kind, as names for a plan."""
    labels: dict[str, list[str]] = {}
    for component in components:
        labels.setdefault(component.kind, []).append(component.label)
    return labels


def with_tasks(graph: Graph, other: Graph) -> Graph:
    """Return a graph with the tasks and gaps of another one of its track, which may be of another split."""
    return replace(
        graph,
        tasks={**graph.tasks, **other.tasks},
        missing={**graph.missing, **other.missing},
        components={**graph.components, **other.components},
    )


def split_of(graph: Graph, secret: str) -> Graph:
    """Return the tasks of one split; `secret` is the digest of its seed, or "" for the public one."""
    tasks = {key: task for key, task in graph.tasks.items() if task.spec.split == secret}
    return replace(graph, tasks=tasks)
