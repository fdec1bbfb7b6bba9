"""Turns a selection of registered components into a graph of content-addressed tasks, without torch, files or clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from imharness.components.registry import Registry, explain
from imharness.contracts.component import KINDS, SELECTABLE, Component
from imharness.contracts.track import Option, Planned, Step, Track
from imharness.errors import HarnessError, Unavailable, UsageError, unknown_name
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.secret import OPTION, digest_of
from imharness.reading.text import reason
from imharness.results.identity import DISTRIBUTION, ComponentRef, canonical_json, digest
from imharness.results.sweeps import Missing
from imharness.results.tasks import TaskSpec, address_of

C = TypeVar("C")
Known = tuple[ComponentRef, Missing | None, str]
"""A component in a plan: its reference, what it lacks on this machine, and its part in the identity of tasks (JSON)."""


@dataclass(frozen=True)
class Task:
    """A node of the graph."""

    key: str
    address: str
    spec: TaskSpec
    available: bool = True


@dataclass(frozen=True)
class Absent:
    """A task that cannot be planned, because something that it needs is not on this machine."""

    missing: Missing
    available: bool = False


@dataclass
class Graph:
    """The tasks of one track; every task comes after those that it needs."""

    track: Track
    run_configuration: str
    secret: str = ""
    tasks: dict[str, Task] = field(default_factory=dict)
    missing: dict[str, Missing] = field(default_factory=dict)
    components: dict[str, Component] = field(default_factory=dict)
    """All components of the plan, by kind and label."""
    set_up: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The options and parameters that the profile sets for the track."""
    takes: tuple[type, ...] = ()
    """The contracts of components that the track asked for."""
    over_budget: Mapping[str, str] = field(default_factory=dict)
    """The entries that may cost more than the profile's limit, and why."""

    def by_step(self) -> dict[str, int]:
        """Return how many tasks each step has."""
        return Counter(task.spec.step for task in self.tasks.values())


class ChosenComponents:
    """The `Selection` of one track."""

    def __init__(self, components: Sequence[Component]) -> None:
        self._components = sorted(components, key=lambda c: c.label)
        self.contracts: dict[type, None] = {}
        """The contracts that were asked for."""

    def of(self, contract: Callable[..., C], /) -> list[C]:
        kind = cast("type[C]", contract)
        self.contracts[kind] = None
        return [c for c in self._components if isinstance(c, kind)]


@dataclass
class GraphPlanner:
    """The `Planner` that collects tasks in a graph; all its tasks have the components `common` and the `options`.

    `whole` plans as if nothing were missing on this machine.
    """

    graph: Graph
    registry: Registry
    seed: int
    limit: int | None
    whole: bool = False
    common: Mapping[str, Component] = field(default_factory=dict)
    options: Mapping[str, Option] = field(default_factory=dict)
    refs: dict[tuple[type, Component], Known] = field(default_factory=dict)
    planned: dict[tuple[object, ...], Planned] = field(default_factory=dict)

    def component(self, kind: str, name: str, /) -> Component:
        return self.registry.one(kind, name)

    def within(self, options: Mapping[str, Option] | None = None, /, **components: Component) -> GraphPlanner:
        return replace(self, common={**self.common, **components}, options={**self.options, **(options or {})})

    def task(
        self,
        step: Step | str,
        components: Mapping[str, Component] | None = None,
        /,
        *,
        options: Mapping[str, Option] | None = None,
        measures: Mapping[str, Mapping[str, Component]] | None = None,
        needs: Mapping[str, Planned] | None = None,
    ) -> Planned:
        chosen = self.graph.track.step(step if isinstance(step, str) else step.name)
        options, needs = {**self.options, **(options or {})}, needs or {}
        measured = {
            f"{group}.{name}": component
            for group, named in (measures or {}).items()
            for name, component in named.items()
        }
        references = {
            role: self._ref(component) for role, component in {**self.common, **(components or {}), **measured}.items()
        }
        key = (
            chosen.name,
            *((role, id(reference)) for role, reference in references.items()),
            len(options),
            *((name, type(value), value) for name, value in options.items()),
            *((name, task.key if isinstance(task, Task) else task) for name, task in needs.items()),
        )
        if key not in self.planned:
            self.planned[key] = self._planned(chosen, references, options, needs)
        return self.planned[key]

    def _planned(
        self, chosen: Step, references: Mapping[str, Known], options: Mapping[str, Option], needs: Mapping[str, Planned]
    ) -> Planned:
        address = address_of(chosen.name, {role: ref.label for role, (ref, *_) in references.items()}, options)
        absent = next((gap for _, gap, _ in references.values() if gap), None)
        if absent is None:
            absent = next((n.missing for n in needs.values() if isinstance(n, Absent)), None)
        if absent is not None:
            self.graph.missing.setdefault(address, absent)
            return Absent(absent)
        spec = TaskSpec.model_construct(
            track=self.graph.track.info.id,
            step=chosen.name,
            version=self.registry.numbered(self.graph.track, chosen.version),
            components={role: ref for role, (ref, *_) in references.items()},
            options=options,
            limit=self.limit,
            seed=self.seed,
            needs={name: task.key for name, task in needs.items() if isinstance(task, Task)},
        )
        key = spec.key_with({role: text for role, (*_, text) in references.items()})
        if key not in self.graph.tasks:
            self.graph.tasks[key] = Task(key, address, spec)
        return self.graph.tasks[key]

    def _ref(self, component: Component) -> Known:
        key = (type(component), component)  # without the type, components with equal fields would share a hash
        reference = self.refs.get(key)
        if reference is None:
            ref, gap = self.registry.ref(component), None if self.whole else _gap(component)
            reference = self.refs[key] = (ref, gap, canonical_json(ref.identity()))
            self.graph.components[f"{component.kind} {component.label}"] = component
        return reference


def _gap(component: Component) -> Missing | None:
    try:
        component.require()
    except Unavailable as error:
        return Missing(what=component.label, reason=error.reason, remedy=error.remedy)
    return None


def plan_track(
    name: str,
    profile: Profile,
    registry: Registry,
    *,
    only: Mapping[str, Sequence[str]] | None = None,
    further: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
    limit: int | None = None,
    whole: bool = False,
) -> Graph:
    """Return the graph of one track.

    `only` (kind -> names, or "!name" for all others) narrows the profile's selection, `further` adds to it. A kind that
    the track does not use is ignored. `whole` plans as if nothing were missing on this machine, for a graph to look at,
    not to run.
    """
    track_profile = profile.tracks[name]
    track = _configured_track(registry, name, track_profile)
    secret = {OPTION: digest_of(profile.secret)} if profile.secret else {}
    facts = [track.info.id, profile.name, profile.identity(name), seed, limit, *secret.values()]
    set_up = track_profile.model_dump(mode="json", include={"options", "parameters"})
    graph = Graph(
        track, digest(facts)[:16], digest_of(profile.secret), set_up=set_up, over_budget=track_profile.over_budget
    )
    chosen = _selection(registry, track_profile, only or {}, further or {})
    registry.check_code([track, *chosen])

    def planned(components: Sequence[Component]) -> Graph:
        planned_graph = replace(graph, tasks={}, missing={}, components={})
        selection = ChosenComponents(components)
        try:
            track.plan(GraphPlanner(planned_graph, registry, seed, limit, whole, options=secret), selection)
        except HarnessError:
            raise
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {reason(error)}"
            raise HarnessError(f"track {name} could not be planned: {why}") from error
        planned_graph.takes = tuple(selection.contracts)
        return planned_graph

    try:
        return planned(chosen)
    except HarnessError:
        theirs = [component for component in chosen if not _is_ours(component, registry)]
        if not theirs:
            raise
        return _without_breakers(planned, [component for component in chosen if component not in theirs], theirs)


def _is_ours(component: Component, registry: Registry) -> bool:
    return registry.provenance(component).provenance.distribution == DISTRIBUTION


def _without_breakers(
    planned: Callable[[Sequence[Component]], Graph], components: list[Component], others: Sequence[Component]
) -> Graph:
    """Return the graph of all components with which a plan can be made; others are added one by one, by label.

    One with which planning breaks off is left out and named among what is missing. Where there is no plan without any
    of the others, raises what planning raises.
    """
    graph, gaps = planned(components), dict[str, Missing]()
    for component in sorted(others, key=lambda c: c.label):
        try:
            graph = planned([*components, component])
        except HarnessError as error:
            why = f"no plan can be made with it: {reason(error)}"
            gaps[f"{component.kind} {component.label}"] = Missing(
                what=component.label, reason=why, remedy="tell its author"
            )
        else:
            components.append(component)
    return replace(graph, missing={**graph.missing, **gaps})


def _configured_track(registry: Registry, name: str, track_profile: TrackProfile) -> Track:
    try:
        return registry.track(name).with_parameters(**track_profile.options)
    except ValidationError as error:
        raise UsageError(f"options of track {name}: {explain(error, type(registry.track(name)))}") from None


def _selection(
    registry: Registry,
    track_profile: TrackProfile,
    only: Mapping[str, Sequence[str]],
    further: Mapping[str, Sequence[str]],
) -> list[Component]:
    for kind in [*track_profile.select, *only, *further]:
        if kind not in KINDS:
            raise UsageError(unknown_name(f"{kind!r} is not a kind of component", kind, SELECTABLE, "Kinds"))
    ids = {entry.component.info.id for entry in registry.entries.values()}
    for id in track_profile.parameters:
        if id not in ids and not registry.failures:  # it may belong to a package that did not load
            raise UsageError(unknown_name(f"parameters are set for {id!r}, but there is no such component", id, ids))
    chosen: dict[tuple[str, str], Component] = {}
    for kind, names in track_profile.select.items():
        only_names = only.get(kind, ())  # if all names have "!", they narrow what the profile selects
        base = () if any(not name.startswith("!") for name in only_names) else names
        for component in named(registry, kind, [*base, *only_names, *further.get(kind, ())]):
            fitted = _adjusted(component, track_profile.parameters.get(component.info.id, {}))
            chosen[kind, fitted.label] = fitted
    return list(chosen.values())


def named(registry: Registry, kind: str, names: Sequence[str]) -> list[Component]:
    """Return the components that names mean; they are read in turn: ``*`` adds all, ``!`` before a name removes it."""
    taken: dict[str, Component] = {}
    for name in names:
        if name.startswith("!"):
            bare = not {"[", ":"} & set(name)  # then it means all variants
            gone = {component.info.id if bare else component.label for component in registry.find(kind, name[1:])}
            taken = {k: component for k, component in taken.items() if (component.info.id if bare else k) not in gone}
            continue
        matches = _all(registry, kind, name) if name in ("*", "*[*]") else registry.find(kind, name)
        taken.update((component.label, component) for component in matches)
    return list(taken.values())


def _all(registry: Registry, kind: str, name: str) -> list[Component]:
    every = [component for component in registry.of_kind(kind) if not (component.address or component.opt_in)]
    return every if name == "*" else [variant for component in every for variant in component.variants()]


def _adjusted(component: Component, changes: Mapping[str, Any]) -> Component:
    """Return a component with a profile's parameters, except for fields that the component sets itself."""
    overrides = {
        name: value
        for name, value in component.model_dump().items()
        if value != type(component).model_fields[name].get_default(call_default_factory=True)
    }
    try:
        return component.with_parameters(**{**changes, **overrides}) if changes else component
    except ValidationError as error:
        raise UsageError(f"parameters of {component.info.id}: {explain(error, type(component))}") from None
