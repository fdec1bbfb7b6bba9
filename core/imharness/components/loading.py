"""Find and load plugin modules. A module that cannot be used is named and left out; the others are loaded."""

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType

import pluggy

from imharness.components import hookspecs
from imharness.errors import PluginError, unknown_name

GROUP = "imharness"
MODULES = "PLUGIN_MODULES"
"""The constant in which a package lists its plugin modules."""


@dataclass(frozen=True)
class Provenance:
    """The installed package a plugin came from, read from the package's own metadata."""

    distribution: str
    version: str
    author: str = ""
    licence: str = ""
    home: str = ""


@dataclass(frozen=True)
class Plugin:
    """A loaded plugin module under the name ``distribution:module``."""

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
    """All usable plugins in a fixed order, and those that were left out."""

    manager: pluggy.PluginManager
    plugins: list[Plugin] = field(default_factory=list)
    failures: list[LoadFailure] = field(default_factory=list)

    def offers(self, plugin: Plugin) -> list[object]:
        """Return what the hook of one plugin returns; raises what it raises."""
        others = [other.module for other in self.plugins if other is not plugin]
        call = self.manager.subset_hook_caller("components", remove_plugins=others)
        return [item for offered in call() for item in offered]


def load_plugins(entry_points: Iterable[importlib.metadata.EntryPoint] | None = None, only: str = "") -> Loaded:
    """Load the modules behind the entry points of the group ``imharness``, sorted by (distribution, name).

    `only`: one of these modules, to load it and no other.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    loaded = Loaded(manager)
    found = importlib.metadata.entry_points(group=GROUP) if entry_points is None else entry_points
    named = sorted((point.dist.name if point.dist else "unknown", point.name, point.value, point) for point in found)
    seen: dict[str, str] = {}
    for distribution, entry, value, point in named:
        name = f"{distribution}:{entry}"
        if name not in seen:
            seen[name] = value
            _load(loaded, provenance(point.dist), distribution, only or value, depth=2 if only else 0)
        elif seen[name] != value:  # otherwise: one installation seen through two path entries
            reason = f"the entry point {entry!r} is declared twice ({seen[name]} and {value}); rename one"
            loaded.failures.append(LoadFailure(name, reason))
    return loaded


def _load(loaded: Loaded, origin: Provenance, distribution: str, path: str, depth: int = 0) -> None:
    """Load one module, or those that it stands for: what a package lists, and every module of a listed package."""
    name = f"{distribution}:{path}"
    try:
        module = importlib.import_module(path)
    except (Exception, SystemExit) as error:
        reason = f"import of {path} failed: {type(error).__name__}: {error}"
        loaded.failures.append(LoadFailure(name, reason))
        return
    if depth == 0 and hasattr(module, MODULES):
        parts = getattr(module, MODULES)
    elif depth == 1 and hasattr(module, "__path__"):
        parts = sorted(found.name for found in pkgutil.iter_modules(module.__path__))
    else:
        parts = ()
        try:
            _register(loaded.manager, name, module)
            loaded.plugins.append(Plugin(name, module, origin))
        except PluginError as error:
            loaded.failures.append(LoadFailure(name, str(error)))
    for part in parts:
        _load(loaded, origin, distribution, f"{path}.{part}", depth + 1)


def _register(manager: pluggy.PluginManager, name: str, module: ModuleType) -> None:
    """Register one module; raises `PluginError` when it cannot be used."""
    _check_version(str(getattr(module, "IMHARNESS_API", hookspecs.API_VERSION)))
    try:
        manager.register(module, name=name)
    except (pluggy.PluginValidationError, ValueError) as error:
        manager.unregister(name=name)
        raise PluginError(f"wrong signature or registered twice: {_one_line(error)}") from None
    hooks = manager.get_hookcallers(module) or []
    unknown = [hook.name for hook in hooks if not hook.has_spec()]
    if hooks and not unknown:
        return
    manager.unregister(name=name)
    if unknown:
        known = [name for name, hook in vars(manager.hook).items() if hook.has_spec()]
        raise PluginError(unknown_name(f"no hook is called {unknown[0]!r}", unknown[0], known))
    raise PluginError(
        "implements no hook; write a function components() or board_finished() and mark it with @hookimpl"
    )


def _check_version(wanted: str) -> None:
    """Raise `PluginError` unless a plugin made for an API version can be used with this one."""
    try:
        major, minor = map(int, wanted.split("."))
    except ValueError:
        raise PluginError(f"IMHARNESS_API = {wanted!r} is no version; write {hookspecs.API_VERSION!r}") from None
    here, newest = map(int, hookspecs.API_VERSION.split("."))
    if (major, minor) > (here, newest) or major != here:
        todo = "port it, or pin a release that fits" if major < here else "update image-privacy-harness"
        raise PluginError(f"made for API version {wanted}, this is {hookspecs.API_VERSION}; {todo}")


def provenance(distribution: importlib.metadata.Distribution | None) -> Provenance:
    """Return who wrote a distribution and under which licence, from its metadata; its home is its first web address."""
    if distribution is None:
        return Provenance("unknown", "")
    facts = distribution.metadata
    author = next((facts[name] for name in ("Author", "Author-email", "Maintainer") if name in facts), "")
    licence = next((facts[name] for name in ("License-Expression", "License") if name in facts), "")
    urls = [url.partition(",")[2].strip() for url in facts.get_all("Project-URL") or []]
    home = next((url for url in urls if url.startswith(("https://", "http://"))), "")
    return Provenance(distribution.name, distribution.version, author, _one_line(licence), home)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:300]
