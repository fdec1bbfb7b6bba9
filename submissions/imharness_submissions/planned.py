"""Which tasks of a plan a submission needs, and on which split of the data each of them is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from imharness.contracts.component import Component
from imharness.contracts.track import Track
from imharness.planning.plan import Graph
from imharness.results.identity import ComponentRef


def _compared(graph: Graph, id: str, is_control: Callable[[ComponentRef], bool]) -> set[str]:
    """Return the keys of the tasks of one component, and of those that it is compared with.

    It is compared with each task in which a control, or nothing, has its role, and in which all other components also
    take part in some task of the component.
    """
    wanted = {key for key, task in graph.tasks.items() if any(ref.id == id for ref in task.spec.components.values())}
    if not wanted:
        return wanted
    references = [ref for key in wanted for ref in graph.tasks[key].spec.components.values()]
    used = {(ref.kind, ref.label) for ref in references}
    kinds = {ref.kind for ref in references if ref.id == id}
    for key, task in graph.tasks.items():
        of_its_kind = [ref for ref in task.spec.named().values() if ref.kind in kinds]
        others = {(ref.kind, ref.label) for ref in task.spec.named().values() if ref.kind not in kinds}
        if all(map(is_control, of_its_kind)) and others <= used:
            wanted.add(key)
    return wanted


def only_with(graph: Graph, ids: Collection[str], is_control: Callable[[ComponentRef], bool] | None) -> Graph:
    """Return a graph with the tasks in which one of these components takes part, and with all that their tables need.

    The tables need the tasks that these depend on. With `is_control`, they also need those that `_compared` returns for
    each component: for a defense the clean scores, the undefended attacks, and the same attacks on controls, which it
    has to be better than.
    """
    wanted = {key for key, task in graph.tasks.items() if any(ref.id in ids for ref in task.spec.components.values())}
    if is_control is not None:
        for id in ids:
            wanted |= _compared(graph, id, is_control)
    waiting = list(wanted)
    while waiting:
        needs = set(graph.tasks[waiting.pop()].spec.needs.values()) - wanted
        wanted |= needs
        waiting += needs
    gaps = {address: gap for address, gap in graph.missing.items() if any(id in address for id in ids)}
    return replace(graph, tasks={key: t for key, t in graph.tasks.items() if key in wanted}, missing=gaps)


def concerns(track: Track, component: Component, tracks: Sequence[Track]) -> bool:
    """Say whether a component is planned in a track.

    A track may be about some classes of a kind only (`Track.own_objects`). A component of that kind but of another
    class is left out if it is of a class that another one of the `tracks` is about. So a submitted distance is not
    attacked behind every defense of no-reference metrics, where it decides nothing.
    """

    def is_about_it(other: Track) -> bool:
        return isinstance(component, other.own_objects.get(component.kind, ()))

    if component.kind not in track.own_objects or is_about_it(track):
        return True
    return not any(map(is_about_it, tracks))


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
