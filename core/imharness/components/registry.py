"""All components by label, each with the package that it comes from."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

from pydantic import ValidationError

from imharness.components.loading import Loaded, LoadFailure, isolated, load_plugins
from imharness.components.papers import paper_of
from imharness.components.provenance import Registered
from imharness.components.soundness import check_parameters, check_sound
from imharness.contracts.component import KINDS, Component
from imharness.errors import PluginError, UsageError, unknown_name
from imharness.reading.fields import explain as explain
from imharness.results.identity import DISTRIBUTION, HARNESS, LOCAL, ComponentRef, owner_of
from imharness.results.labels import method_of, read_name, read_settings

if TYPE_CHECKING:
    from imharness.contracts.track import Track


class Registry:
    """The components of all plugins, sorted by kind and label."""

    def __init__(self, entries: Iterable[Registered], failures: Iterable[LoadFailure] = ()) -> None:
        labelled = [(e.component.kind, e.component.label, e) for e in entries]
        labelled.sort(key=lambda pair: (KINDS.index(pair[0]), pair[1]))
        self.entries = {(kind, label): e for kind, label, e in labelled}
        self.failures = list(failures)
        self._classes = {(kind, e.component.info.id): e for kind, _, e in labelled}
        """Kind and id -> the last entry with this id; entries with one id are of one class."""

    def joined(self, further: Iterable[Registered]) -> Registry:
        """Return a registry with further entries; raises `PluginError` if the name of one is taken."""
        entries = list(further)
        for entry in entries:
            taken = self._classes.get((entry.component.kind, entry.component.info.id))
            if taken is not None:
                raise PluginError(f"{entry.component.info.id} is already registered by {taken.plugin}; rename it")
        return Registry([*self.entries.values(), *entries], self.failures)

    def superseded_by(self, further: Iterable[Registered]) -> Registry:
        """Return a registry with further entries, which replace all entries of their packages.

        So a package that is installed can be measured as a wheel, too. Names of packages may be written with "-", "_"
        or ".". Raises `PluginError` if the name of an entry is taken by another package.
        """
        entries = list(further)
        packages = {_canonical(entry.provenance.distribution) for entry in entries} - {DISTRIBUTION}
        remaining = [e for e in self.entries.values() if _canonical(e.provenance.distribution) not in packages]
        return Registry(remaining, self.failures).joined(entries)

    def track(self, name: str) -> Track:
        """Return the track with this label, id or method; raises `UsageError` if there is none."""
        return cast("Track", self.one("track", name))

    def of_kind(self, kind: str) -> list[Component]:
        """Return all components of a kind, sorted by label."""
        return [entry.component for (k, _), entry in self.entries.items() if k == kind]

    def ids(self) -> frozenset[str]:
        """Return the ids of all components."""
        return frozenset(entry.component.info.id for entry in self.entries.values())

    def provenance(self, component: Component) -> Registered:
        """Return where a component comes from, whatever its parameters are."""
        return self._classes[component.kind, component.info.id]

    def ref(self, component: Component) -> ComponentRef:
        """Return a component as pure data, from which `revive` restores it; its version names its package's code."""
        return component.ref().model_copy(update={"version": self.numbered(component, component.info.version)})

    def numbered(self, component: Component, version: str) -> str:
        """Return the version of a component, or of a step of a track, with the code of the package that it is from."""
        entry = self._classes.get((component.kind, component.info.id))
        return version if entry is None else entry.provenance.numbered(version)

    def version(self, kind: str, id: str) -> str:
        """Return the version of an installed component, with its package's code; "" if there is no such component."""
        entry = self._classes.get((kind, id))
        return "" if entry is None else entry.provenance.numbered(entry.component.info.version)

    def check_code(self, components: Iterable[Component]) -> None:
        """Raise `HarnessError` if files of the components' packages changed since this process imported them."""
        codes = {self.provenance(component).provenance.code: None for component in components}
        for code in codes:
            if code is not None:
                code.check()

    def find(self, kind: str, name: str) -> list[Component]:
        """Return the components that a name means: a label, an id, a method without its owner, or ``id[field=value]``.

        A method of the harness has its short name, whoever else uses it. ``id[*]`` means all values of the parameter
        study; ``id:value`` or ``id[field=value]:value`` sets the address to the text after the colon. Raises
        `UsageError` if the name is unknown, fits several owners, or has invalid parameters, and `PluginError` if it is
        unknown but may belong to a package that did not load.
        """
        if (kind, name) in self.entries:
            return [self.entries[kind, name].component]
        parsed, registered = read_name(name), sorted(id for k, id in self._classes if k == kind)
        wanted = parsed.id if parsed else ""
        ids = [wanted] if wanted in registered else [id for id in registered if method_of(id) == wanted]
        first_party = [id for id in ids if owner_of(id) == HARNESS]
        ids = first_party or ids
        if len(ids) > 1:
            raise UsageError(f"{name!r} is ambiguous: {', '.join(ids)}; give the owner too.")
        matches = [component for component in self.of_kind(kind) if component.info.id in ids]
        if parsed is None or not matches or (parsed.address and not matches[-1].address):
            error = PluginError if self.failures else UsageError
            raise error(unknown_name(f"no {kind} is called {name!r}", wanted or name, registered))
        template = matches[-1]  # all matches are of one class, and differ in parameters alone
        if parsed.address:
            settings = read_settings(parsed.settings or "", template.info.id)
            return [_valid(template, {**settings, template.address: parsed.address})]
        if parsed.settings is None:
            return matches
        if parsed.settings == "*":
            return [variant for component in matches for variant in component.variants()]
        return [_valid(template, read_settings(parsed.settings, template.info.id))]

    def one(self, kind: str, name: str) -> Component:
        """Return the one component that a name means; an id alone means its first label."""
        matches = self.find(kind, name)
        return next((c for c in matches if c.label == c.info.id), matches[0])

    def revive(self, ref: ComponentRef) -> Component:
        """Return the component of a reference."""
        try:
            template = self._classes[ref.kind, ref.id].component
        except KeyError:
            raise PluginError(f"{ref.kind} {ref.id} is not installed; install the package that registers it") from None
        return type(template).model_validate(dict(ref.parameters))


def _canonical(distribution: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _valid(template: Component, changes: Mapping[str, Any]) -> Component:
    """Return a component of the template's class with these parameters; raises `UsageError` for wrong ones."""
    try:
        adjusted = type(template).model_validate(changes)
        check_parameters(adjusted)
    except ValidationError as error:
        raise UsageError(f"{template.info.id}: {explain(error, type(template))}") from None
    except PluginError as error:
        raise UsageError(str(error)) from None
    return adjusted


def build_registry(loaded: Loaded) -> Registry:
    """Return the components of all plugins; those that break their contract are reported and left out."""
    failures = list(loaded.failures)
    entries: dict[tuple[str, str], Registered] = {}
    for plugin in loaded.plugins:
        try:
            with isolated("components() raised"):
                offered = [item for offers in loaded.ask(plugin) for item in offers]
        except PluginError as error:
            failures.append(LoadFailure(plugin.name, str(error)))
            continue
        for item in offered:
            try:
                with isolated("components() returned what raises"):
                    component = checked_offer(item)
                if owner_of(component.info.id) == HARNESS and plugin.provenance.distribution != DISTRIBUTION:
                    raise PluginError(f"{component.info.id}: the owner {HARNESS!r} is reserved; use your own")
                key = (component.kind, component.label)
                if key in entries:
                    raise PluginError(f"{key[1]} is already registered by {entries[key].plugin}; rename it")
                entries[key] = Registered(component, plugin.name, plugin.provenance)
            except PluginError as error:
                failures.append(LoadFailure(plugin.name, str(error)))
    return Registry(entries.values(), failures)


def checked_offer(item: object) -> Component:
    """Return `item` if it is a component that can be registered; raises `PluginError` otherwise."""
    kind = getattr(type(item), "kind", None)
    if isinstance(item, Component) and kind is not None and kind not in KINDS:
        raise PluginError(
            f"{type(item).__name__}: {unknown_name(f'no components have the kind {kind!r}', str(kind), KINDS, 'Kinds')}"
        )
    if not isinstance(item, Component) or kind is None:
        text = item.__name__ + " (a class: return an instance)" if isinstance(item, type) else repr(item)
        raise PluginError(f"expected a component of a contract such as Purification, got {text:.120}")
    info = getattr(type(item), "info", None)
    wanted = info_class(type(item))
    if not isinstance(info, wanted):
        raise PluginError(f"{type(item).__name__}.info must be a {wanted.__name__}, got {type(info).__name__}")
    if item.info.id.startswith(f"{LOCAL}/"):
        raise PluginError(f"{item.info.id}: the owner {LOCAL!r} is reserved for objects of notebooks; choose another")
    if not item.summary:
        raise PluginError(f"{type(item).__name__} has no docstring; its first line is shown to readers")
    paper_of(item)
    check_sound(item)
    return item


def info_class(component: type[Component]) -> type:
    """Return the class that `info` must be an instance of, which the nearest contract declares."""
    hints = get_type_hints(next(base for base in component.__mro__ if "info" in base.__annotations__))
    return next(arg for arg in get_args(hints["info"]) if isinstance(arg, type))


@functools.cache
def installed() -> Registry:
    """Return the registry of this environment, which is loaded once per process."""
    return build_registry(load_plugins())
