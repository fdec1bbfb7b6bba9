"""Turns a selection of registered components into a graph of content-addressed tasks, without torch, files or clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar, cast

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


class Referenced(NamedTuple):
    """A component in a plan.

    `ref` is the component as pure data, `gap` what it lacks on this machine, if anything, and `identity` its share in
    the identity of tasks, as JSON.
    """

    ref: ComponentRef
    gap: Missing | None
    identity: str


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

    `whole` plans as if nothing were missing on this machine. `refs` and `planned` are caches, which planners for one
    graph share: a track may ask for the same component or task very often.
    """

    graph: Graph
    registry: Registry
    seed: int
    limit: int | None
    whole: bool = False
    common: Mapping[str, Component] = field(default_factory=dict)
    options: Mapping[str, Option] = field(default_factory=dict)
    refs: dict[tuple[type, Component], Referenced] = field(default_factory=dict)
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
        by_role = {**self.common, **(components or {}), **measured}
        references = {role: self._referenced(component) for role, component in by_role.items()}
        # `self.refs` keeps one object for each component, so that its id is enough, and cheaper than its hash. An
        # option has its type in the key, because 1 and True are equal. The number of options separates them from needs.
        same_task = (
            chosen.name,
            *((role, id(reference)) for role, reference in references.items()),
            len(options),
            *((name, type(value), value) for name, value in options.items()),
            *((name, task.key if isinstance(task, Task) else task) for name, task in needs.items()),
        )
        if same_task not in self.planned:
            self.planned[same_task] = self._planned(chosen, references, options, needs)
        return self.planned[same_task]

    def _planned(
        self,
        chosen: Step,
        references: Mapping[str, Referenced],
        options: Mapping[str, Option],
        needs: Mapping[str, Planned],
    ) -> Planned:
        """Add a task to the graph, or note what it lacks, or what a task lacks that it needs."""
        labels = {role: reference.ref.label for role, reference in references.items()}
        address = address_of(chosen.name, labels, options)
        absent = next((reference.gap for reference in references.values() if reference.gap), None)
        if absent is None:
            absent = next((need.missing for need in needs.values() if isinstance(need, Absent)), None)
        if absent is not None:
            self.graph.missing.setdefault(address, absent)
            return Absent(absent)
        spec = TaskSpec.model_construct(
            track=self.graph.track.info.id,
            step=chosen.name,
            version=self.registry.numbered(self.graph.track, chosen.version),
            components={role: reference.ref for role, reference in references.items()},
            options=options,
            limit=self.limit,
            seed=self.seed,
            needs={name: task.key for name, task in needs.items() if isinstance(task, Task)},
        )
        key = spec.key_with({role: reference.identity for role, reference in references.items()})
        if key not in self.graph.tasks:
            self.graph.tasks[key] = Task(key, address, spec)
        return self.graph.tasks[key]

    def _referenced(self, component: Component) -> Referenced:
        """Return a component as tasks refer to it, and add it to the graph's components the first time."""
        key = (type(component), component)  # without the type, components with equal fields would share a hash
        if key not in self.refs:
            ref = self.registry.ref(component)
            gap = None if self.whole else _gap(component)
            self.refs[key] = Referenced(ref, gap, canonical_json(ref.identity()))
            self.graph.components[f"{component.kind} {component.label}"] = component
        return self.refs[key]


def _gap(component: Component) -> Missing | None:
    """Return what a component lacks on this machine, or None."""
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

    Args:
        name: the label, id or method of the track.
        profile: what is selected for the track, and its options.
        registry: all components.
        only: kind -> names, to which the profile's selection is narrowed; "!name" means all but this one. A kind that
            the track does not use is ignored.
        further: kind -> names that are added to the selection.
        seed: the seed of the run.
        limit: use only this many images of each data set; None means all.
        whole: whether to plan as if nothing were missing on this machine, for a graph to look at, not to run.

    Raises:
        HarnessError: the track cannot be planned, even without the components of other packages.
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
        of_others = [component for component in chosen if not _is_ours(component, registry)]
        if not of_others:
            raise
        first_party = [component for component in chosen if component not in of_others]
        return _without_breakers(planned, first_party, of_others)


def _is_ours(component: Component, registry: Registry) -> bool:
    return registry.provenance(component).provenance.distribution == DISTRIBUTION


def _without_breakers(
    planned: Callable[[Sequence[Component]], Graph], components: list[Component], others: Sequence[Component]
) -> Graph:
    """Return the graph of all components with which a plan can be made.

    The first plan has only `components`; if that fails, its error is raised. Then `others` are added one by one, by
    label. A component with which planning fails is left out, and the graph names it among what is missing.
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
    """Return the components of a track's profile, narrowed to `only`, with `further` ones and the set parameters."""
    for kind in [*track_profile.select, *only, *further]:
        if kind not in KINDS:
            raise UsageError(unknown_name(f"{kind!r} is not a kind of component", kind, SELECTABLE, "Kinds"))
    ids = {entry.component.info.id for entry in registry.entries.values()}
    for id in track_profile.parameters:
        if id not in ids and not registry.failures:  # it may belong to a package that did not load
            raise UsageError(unknown_name(f"parameters are set for {id!r}, but there is no such component", id, ids))
    chosen: dict[tuple[str, str], Component] = {}
    for kind, names in track_profile.select.items():
        only_names = only.get(kind, ())
        replaces = any(not name.startswith("!") for name in only_names)  # names with "!" narrow the profile's selection
        base = () if replaces else names
        for component in named(registry, kind, [*base, *only_names, *further.get(kind, ())]):
            adjusted = _adjusted(component, track_profile.parameters.get(component.info.id, {}))
            chosen[kind, adjusted.label] = adjusted
    return list(chosen.values())


def named(registry: Registry, kind: str, names: Sequence[str]) -> list[Component]:
    """Return the components that names mean; they are read in turn: ``*`` adds all, ``!`` before a name removes it."""
    by_label: dict[str, Component] = {}
    for name in names:
        if name.startswith("!"):
            removed = registry.find(kind, name[1:])
            if {"[", ":"} & set(name):
                labels = {component.label for component in removed}
                by_label = {label: component for label, component in by_label.items() if label not in labels}
            else:  # a name without settings and address means all variants
                ids = {component.info.id for component in removed}
                by_label = {label: component for label, component in by_label.items() if component.info.id not in ids}
            continue
        matches = _all(registry, kind, name) if name in ("*", "*[*]") else registry.find(kind, name)
        by_label.update((component.label, component) for component in matches)
    return list(by_label.values())


def _all(registry: Registry, kind: str, name: str) -> list[Component]:
    """Return what ``*`` means, or ``*[*]``, with all variants; components that only their name selects are left out."""
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
