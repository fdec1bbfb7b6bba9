"""Finds and loads plugin modules. A module that cannot be used is reported and left out; the others are loaded.

Only the modules that implement the hook to be called are imported: entry points say which hook a module implements.
"""

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pluggy

from imharness.components import hookspecs
from imharness.components.provenance import Provenance, provenance
from imharness.errors import PluginError, unknown_name

GROUP = "imharness"
COMPONENTS = hookspecs.components.__name__
MODULES = "PLUGIN_MODULES"
"""The constant in which a package lists its plugin modules."""
Points = Iterable[importlib.metadata.EntryPoint]


@dataclass(frozen=True)
class Plugin:
    """A loaded plugin module; its name is ``distribution:module``."""

    name: str
    module: ModuleType
    provenance: Provenance


@dataclass(frozen=True)
class LoadFailure:
    """A plugin, or one component of it, that was left out, and why."""

    name: str
    reason: str


@dataclass
class Loaded:
    """All usable plugins of one hook in a fixed order, and those that were left out.

    `declared` is module -> the hooks that its entry points state.
    """

    manager: pluggy.PluginManager
    hook: str
    declared: Mapping[str, Collection[str]]
    plugins: list[Plugin] = field(default_factory=list)
    failures: list[LoadFailure] = field(default_factory=list)

    def ask(self, plugin: Plugin, **given: Any) -> list[Any]:
        """Return what the hook of one plugin returns, and raise what it raises."""
        others = [other.module for other in self.plugins if other is not plugin]
        found: list[Any] = self.manager.subset_hook_caller(self.hook, remove_plugins=others)(**given)
        return found


def hook_of(entry: str) -> str:
    """Return the hook that an entry point states for its module: ``HOOK`` of ``NAME.HOOK``, else `components`."""
    return entry.rpartition(".")[2] if "." in entry else COMPONENTS


def points_of(hook: str, entry_points: Points | None = None) -> list[importlib.metadata.EntryPoint]:
    """Return the entry points whose modules implement a hook, without importing any of them."""
    found = importlib.metadata.entry_points(group=GROUP) if entry_points is None else entry_points
    return [point for point in found if hook_of(point.name) == hook]


def load_plugins(entry_points: Points | None = None, only: str = "", *, hook: str = COMPONENTS) -> Loaded:
    """Load the modules that entry points in the group ``imharness`` name for a hook, sorted by (distribution, name).

    `only` is one of these modules: it is loaded and no other.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    found = list(importlib.metadata.entry_points(group=GROUP) if entry_points is None else entry_points)
    declared: dict[str, set[str]] = {}
    for point in found:
        declared.setdefault(point.value, set()).add(hook_of(point.name))
    loaded = Loaded(manager, hook, declared)
    if hook == COMPONENTS:
        loaded.failures += _misnamed(manager, found)
    named = sorted((_owner(point), point.name, point.value, point) for point in points_of(hook, found))
    seen: dict[str, str] = {}
    for distribution, entry, value, point in named[:1] if only else named:
        name = f"{distribution}:{entry}"
        if name not in seen:
            seen[name] = value
            _load(loaded, provenance(point.dist), distribution, only or value, depth=2 if only else 0)
        elif seen[name] != value:  # if they are equal, two entries of the path show one installation
            reason = f"the entry point {entry!r} is declared twice ({seen[name]} and {value}); rename one"
            loaded.failures.append(LoadFailure(name, reason))
    return loaded


def _owner(point: importlib.metadata.EntryPoint) -> str:
    return point.dist.name if point.dist else "unknown"


def _known(manager: pluggy.PluginManager) -> list[str]:
    return [name for name, hook in vars(manager.hook).items() if hook.has_spec()]


def _misnamed(manager: pluggy.PluginManager, points: Points) -> Iterator[LoadFailure]:
    """Yield a failure for each entry point that names a module for an unknown hook."""
    known = _known(manager)
    for point in points:
        hook = hook_of(point.name)
        if hook not in known:
            why = unknown_name(f"the entry point {point.name!r}: no hook is called {hook!r}", hook, known)
            yield LoadFailure(f"{_owner(point)}:{point.name}", why)


def _load(loaded: Loaded, origin: Provenance, distribution: str, path: str, depth: int = 0) -> None:
    """Load one module or those that it stands for: the modules of a package's list, or all of a listed package."""
    name = f"{distribution}:{path}"
    try:
        module = importlib.import_module(path)
    except (Exception, SystemExit) as error:
        reason = f"import of {path} failed: {type(error).__name__}: {error}"
        loaded.failures.append(LoadFailure(name, reason))
        return
    if depth == 0 and loaded.hook == COMPONENTS and hasattr(module, MODULES):
        parts = getattr(module, MODULES)
    elif depth == 1 and hasattr(module, "__path__"):
        parts = sorted(found.name for found in pkgutil.iter_modules(module.__path__))
    else:
        parts = ()
        try:
            _register(loaded, name, path, module)
            loaded.plugins.append(Plugin(name, module, origin))
        except PluginError as error:
            loaded.failures.append(LoadFailure(name, str(error)))
    for part in parts:
        _load(loaded, origin, distribution, f"{path}.{part}", depth + 1)


def _register(loaded: Loaded, name: str, path: str, module: ModuleType) -> None:
    """Register one module; raises `PluginError` if it cannot be used."""
    manager = loaded.manager
    _check_version(str(getattr(module, "IMHARNESS_API", hookspecs.API_VERSION)))
    try:
        manager.register(module, name=name)
        _check_hooks(loaded, path, [hook.name for hook in manager.get_hookcallers(module) or []])
    except (pluggy.PluginValidationError, ValueError) as error:
        manager.unregister(name=name)
        raise PluginError(f"wrong signature or registered twice: {_one_line(error)}") from None
    except PluginError:
        manager.unregister(name=name)
        raise


def _check_hooks(loaded: Loaded, path: str, implemented: Sequence[str]) -> None:
    """Raise `PluginError` unless a module implements the hook that it was loaded for, and no hook it does not state."""
    known = _known(loaded.manager)
    for hook in implemented:
        if hook not in known:
            raise PluginError(unknown_name(f"no hook is called {hook!r}", hook, known))
    if loaded.hook not in implemented:
        raise PluginError(f"does not implement the hook; write a function {loaded.hook}() and mark it with @hookimpl")
    unheard = sorted(set(implemented) - {loaded.hook, *loaded.declared.get(path, ())})
    if unheard:
        (hook, *_) = unheard
        raise PluginError(f"implements {hook}(), but no entry point says so; add NAME.{hook} = {path!r}")


def _check_version(wanted: str) -> None:
    """Raise `PluginError` unless a plugin made for an API version can be used with this one."""
    try:
        major, minor = map(int, wanted.split("."))
    except ValueError:
        raise PluginError(f"IMHARNESS_API = {wanted!r} is not a version; write {hookspecs.API_VERSION!r}") from None
    here, newest = map(int, hookspecs.API_VERSION.split("."))
    if (major, minor) > (here, newest) or major != here:
        todo = "port it, or pin a release that fits" if major < here else "update image-privacy-harness"
        raise PluginError(f"made for API version {wanted}, this is {hookspecs.API_VERSION}; {todo}")


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:300]
