"""Finds and loads plugin modules. A module that cannot be used is reported and left out; the others are loaded.

Only the modules that implement the hook to be called are imported: entry points say which hook a module implements.
"""

import importlib
import importlib.metadata
import inspect
import pkgutil
import signal
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from types import FrameType, ModuleType
from typing import Any

import pluggy
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from imharness.components import hookspecs
from imharness.components.code import code_of
from imharness.components.provenance import Provenance, provenance
from imharness.errors import PluginError, unknown_name
from imharness.reading.text import reason
from imharness.results.identity import DISTRIBUTION
from imharness.results.version import __version__

GROUP = "imharness"
"""The group of the entry points that name plugin modules."""
COMPONENTS = hookspecs.components.__name__
"""The name of the hook by which modules offer components."""
MODULES = "PLUGIN_MODULES"
"""The constant in which a package lists its plugin modules."""
Points = Iterable[importlib.metadata.EntryPoint]


@dataclass(frozen=True)
class Plugin:
    """A loaded plugin module; its name is ``distribution:module``, or ``distribution:module:attribute``."""

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

    def ask(self, plugin: Plugin, **arguments: Any) -> list[Any]:
        """Return what the hook of one plugin returns, and raise what it raises."""
        others = [other.module for other in self.plugins if other is not plugin]
        answers: list[Any] = self.manager.subset_hook_caller(self.hook, remove_plugins=others)(**arguments)
        return answers


@contextmanager
def isolated(failed: str) -> Iterator[None]:
    """Turn whatever a plugin's code raises in the block into a `PluginError` that begins with `failed`.

    That includes a `KeyboardInterrupt` that the code itself raises. Only a person who presses Ctrl-C ends the program:
    then the exception is passed on.
    """
    pressed = list[int]()
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None

    def noted(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        if callable(before):
            before(number, frame)

    if callable(before):
        signal.signal(signal.SIGINT, noted)
    try:
        yield
    except BaseException as error:
        if pressed or isinstance(error, PluginError):
            raise
        raise PluginError(f"{failed} {type(error).__name__}: {reason(error)}") from error
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)


def hook_of(entry: str) -> str:
    """Return the hook that an entry point states for its module: ``HOOK`` of ``NAME.HOOK``, else `components`."""
    return entry.rpartition(".")[2] if "." in entry else COMPONENTS


def points_of(hook: str, entry_points: Points | None = None) -> list[importlib.metadata.EntryPoint]:
    """Return the entry points whose modules implement a hook, without importing any of them."""
    points = importlib.metadata.entry_points(group=GROUP) if entry_points is None else entry_points
    return [point for point in points if hook_of(point.name) == hook]


def load_plugins(entry_points: Points | None = None, only: str = "", *, hook: str = COMPONENTS) -> Loaded:
    """Load the modules that entry points in the group ``imharness`` name for a hook, sorted by (distribution, name).

    Args:
        entry_points: the entry points, by default those of this environment.
        only: the path of one module of one package, as ``module`` or ``module:attribute``; no other is loaded. The
            entry points must be those of this package.
        hook: the name of the hook.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    points = list(importlib.metadata.entry_points(group=GROUP) if entry_points is None else entry_points)
    declared: dict[str, set[str]] = {}
    for point in points:
        declared.setdefault(module_of(point.value), set()).add(hook_of(point.name))
    loaded = Loaded(manager, hook, declared)
    if hook == COMPONENTS:
        loaded.failures += _misnamed(manager, points)
    named = sorted((_owner(point), point.name, point.value, point) for point in points_of(hook, points))
    value_of: dict[str, str] = {}  # "distribution:entry point" -> its value
    origins: dict[str, Provenance | None] = {}  # distribution -> its provenance, None if it cannot be used
    for distribution, entry, value, point in named[:1] if only else named:
        name = f"{distribution}:{entry}"
        if distribution not in origins:
            origins[distribution] = _origin(loaded, point, hook)
        origin = origins[distribution]
        if name not in value_of and origin is not None:
            value_of[name] = value
            _load(loaded, origin, distribution, only or value, MODULE if only else TOP)
        elif value_of.get(name, value) != value:  # equal values are one installation that is twice on the path
            reason = f"the entry point {entry!r} is declared twice ({value_of[name]} and {value}); rename one"
            loaded.failures.append(LoadFailure(name, reason))
    return loaded


def module_of(value: str) -> str:
    """Return the module that the value of an entry point, ``module`` or ``module:attribute``, names."""
    return value.partition("[")[0].partition(":")[0].strip()


def _origin(loaded: Loaded, point: importlib.metadata.EntryPoint, hook: str) -> Provenance | None:
    """Return the provenance of a package; None, with a failure, if it cannot be used with this harness."""
    origin = provenance(point.dist)
    try:
        if point.dist is None or origin.distribution == DISTRIBUTION:
            return origin
        _check_requirement(point.dist)
        return replace(origin, code=code_of(point.dist)) if hook == COMPONENTS else origin
    except (PluginError, OSError) as error:
        loaded.failures.append(LoadFailure(origin.distribution, str(error)))
        return None


def _check_requirement(distribution: importlib.metadata.Distribution) -> None:
    """Raise `PluginError` if a package requires another version of the harness."""
    for line in distribution.requires or ():
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            raise PluginError(f"its metadata require {line!r}, which is no requirement; build it again") from None
        if canonicalize_name(wanted.name) != DISTRIBUTION or (wanted.marker and not wanted.marker.evaluate()):
            continue
        if not wanted.specifier.contains(__version__, prereleases=True):
            raise PluginError(f"requires {line}, this is {__version__}; install a release of it that fits")


def _owner(point: importlib.metadata.EntryPoint) -> str:
    return point.dist.name if point.dist else "unknown"


def _hook_names(manager: pluggy.PluginManager) -> list[str]:
    return [name for name, hook in vars(manager.hook).items() if hook.has_spec()]


def _misnamed(manager: pluggy.PluginManager, points: Points) -> Iterator[LoadFailure]:
    """Yield a failure for each entry point that names a module for an unknown hook."""
    hooks = _hook_names(manager)
    for point in points:
        hook = hook_of(point.name)
        if hook not in hooks:
            why = unknown_name(f"the entry point {point.name!r}: no hook is called {hook!r}", hook, hooks)
            yield LoadFailure(f"{_owner(point)}:{point.name}", why)


TOP, LISTED, MODULE = range(3)
"""Where a path comes from: from an entry point, from the list of a package (`MODULES`), or from a listed package."""


def _load(loaded: Loaded, origin: Provenance, distribution: str, path: str, level: int) -> None:
    """Load what a path names, or the modules that it stands for.

    A package at the level `TOP` stands for the modules in its list `MODULES`, if it has one. A package at the level
    `LISTED` stands for all modules in it. `path` is ``module`` or ``module:attribute``.
    """
    name = f"{distribution}:{path}"
    try:
        with isolated(f"import of {path} failed:"):
            target = _imported(path)
        if level == TOP and loaded.hook == COMPONENTS and hasattr(target, MODULES):
            modules = list(getattr(target, MODULES))
        elif level == LISTED and hasattr(target, "__path__"):
            modules = sorted(one.name for one in pkgutil.iter_modules(target.__path__))
        else:
            modules = []
            _register(loaded, name, target)
            loaded.plugins.append(Plugin(name, target, origin))
    except PluginError as error:
        loaded.failures.append(LoadFailure(name, str(error)))
        return
    for module in modules:
        _load(loaded, origin, distribution, f"{target.__name__}.{module}", level + 1)


def _imported(path: str) -> ModuleType:
    """Import what ``module`` or ``module:attribute`` names, and return it as a module.

    A function becomes a module that has it under its name; another object becomes a module with its public attributes.
    """
    name, attributes = module_of(path), path.partition("[")[0].partition(":")[2].strip()
    target: Any = importlib.import_module(name)
    if attributes:
        target = reduce(getattr, attributes.split("."), target)
    if isinstance(target, ModuleType):
        return target
    if isinstance(target, type):
        raise PluginError(f"{path} is a class; name an instance of it")
    hooks = {target.__name__: target} if inspect.isroutine(target) else {n: getattr(target, n) for n in dir(target)}
    module = ModuleType(name)
    vars(module).update({name: hook for name, hook in hooks.items() if not name.startswith("_")})
    return module


def _register(loaded: Loaded, name: str, target: ModuleType) -> None:
    """Register one module; raises `PluginError` if it cannot be used."""
    manager = loaded.manager
    _check_version(str(getattr(target, "IMHARNESS_API", hookspecs.API_VERSION)))
    try:
        manager.register(target, name=name)
        _check_hooks(loaded, target.__name__, [hook.name for hook in manager.get_hookcallers(target) or []])
    except (pluggy.PluginValidationError, ValueError) as error:
        manager.unregister(name=name)
        raise PluginError(f"wrong signature or registered twice: {_one_line(error)}") from None
    except PluginError:
        manager.unregister(name=name)
        raise


def _check_hooks(loaded: Loaded, path: str, implemented: Sequence[str]) -> None:
    """Raise `PluginError` unless a module implements the hook that it was loaded for, and no hook it does not state."""
    hooks = _hook_names(loaded.manager)
    for hook in implemented:
        if hook not in hooks:
            raise PluginError(unknown_name(f"no hook is called {hook!r}", hook, hooks))
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
