"""The list of components, which is kept between commands because importing every plugin, and torch, takes seconds.

The list is kept under a digest of everything that it depends on: what is installed, and the name, size and time of
change of each file of a plugin package and of the harness. If a plugin was left out, nothing is kept, because the cause
may be something else.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError

from imharness.components.loading import COMPONENTS, points_of
from imharness.results.labels import id_of, method_of

if TYPE_CHECKING:
    from imharness.components.registry import Registry

MOST_BYTES = 8 << 20
"""The largest list that is read; a larger file was not written by this module."""
KEPT = 8
"""The number of environments whose lists are kept."""
INSTALLED = (".dist-info", ".egg-info", ".egg-link", ".pth")
"""The endings of what an installer writes into a folder of packages."""


class Listed(BaseModel):
    """A component as `harness plugins list` shows it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    label: str
    summary: str
    distribution: str
    plugin: str


class LeftOut(BaseModel):
    """A plugin that cannot be used, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    reason: str


class Index(BaseModel):
    """All components of this environment, and what was left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    components: tuple[Listed, ...]
    left_out: tuple[LeftOut, ...] = ()


def index() -> Index:
    """Return the components of this environment, from the kept list if nothing has changed since."""
    path = cache_folder() / f"{_digest()}.json"
    with suppress(OSError, ValidationError):
        if path.stat().st_size <= MOST_BYTES:
            return Index.model_validate_json(path.read_bytes())
    plugin_index = _imported()
    if not plugin_index.left_out:
        _keep(path, plugin_index)
    return plugin_index


def registry_for(name: str) -> Registry:
    """Return a registry in which `name` means the same components as in the full one, without loading all plugins.

    Only plugins are loaded that have a component with this id or method. If there is no such component, or if a plugin
    was left out of the list, the full registry is returned.
    """
    from imharness.components.loading import GROUP, load_plugins
    from imharness.components.registry import Registry, build_registry, installed

    plugin_index, wanted = index(), id_of(name)
    ids = [(id_of(one.label), one.plugin) for one in plugin_index.components]
    plugins = sorted({plugin for id, plugin in ids if wanted in (id, method_of(id))})
    if not plugins or plugin_index.left_out:
        return installed()
    registry, points = Registry(()), importlib.metadata.entry_points(group=GROUP)
    for plugin in plugins:
        distribution, _, path = plugin.partition(":")
        of_package = [point for point in points if point.dist and point.dist.name == distribution]
        registry = registry.joined(build_registry(load_plugins(of_package, path)).entries.values())
    return registry


def kept() -> tuple[Listed, ...]:
    """Return the components of the list kept for this environment, or else of the newest one; imports no plugin."""
    folder = cache_folder()
    with suppress(OSError):
        newest = sorted(folder.glob("*.json"), key=lambda file: -file.stat().st_mtime_ns)
        for path in (folder / f"{_digest()}.json", *newest):
            with suppress(OSError, ValidationError):
                if path.stat().st_size <= MOST_BYTES:
                    return Index.model_validate_json(path.read_bytes()).components
    return ()


def cache_folder() -> Path:
    """Return the folder in which lists are kept; it may be deleted at any time."""
    return Path(platformdirs.user_cache_dir("image-privacy-harness")) / "components"


def _imported() -> Index:
    """Return the list of the components that importing every plugin gives."""
    from imharness.components.registry import installed

    registry = installed()
    components = [
        Listed(
            kind=entry.component.kind,
            label=entry.component.label,
            summary=entry.component.summary,
            distribution=entry.provenance.distribution,
            plugin=entry.plugin,
        )
        for entry in registry.entries.values()
    ]
    left_out = [LeftOut(name=failure.name, reason=failure.reason) for failure in registry.failures]
    return Index(components=tuple(components), left_out=tuple(left_out))


def _keep(path: Path, plugin_index: Index) -> None:
    """Write the list completely, and remove the oldest lists; if that fails, the next command imports again."""
    temporary = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(plugin_index.model_dump_json(), encoding="utf-8")
        temporary.replace(path)
        for old in sorted(path.parent.glob("*.json"), key=lambda old: -old.stat().st_mtime_ns)[KEPT:]:
            old.unlink(missing_ok=True)


def _digest() -> str:
    """Return the digest of all that the list depends on; see the module."""
    points = [(point.dist.name if point.dist else "", point.name, point.value) for point in points_of(COMPONENTS)]
    plugin_folders = {folder for _, _, value in points for folder in _package(value)}
    folders = sorted(plugin_folders | set(_harness()))
    files = [[str(folder), sorted(_files(folder))] for folder in folders]
    installed = [_installed(folder) for folder in sys.path]
    facts = [sys.version, sys.path, sorted(points), installed, files]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _package(value: str) -> Iterator[Path]:
    """Yield the folders, or the file, of the package that an entry point names, without importing it."""
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(value.partition(":")[0].partition(".")[0])
        if spec is not None:
            yield from map(Path, spec.submodule_search_locations or [spec.origin or ""])


def _harness() -> list[Path]:
    """Return the folders of the harness's own packages."""
    return sorted(Path(__file__).parents[2].glob("imharness*"))


def _files(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and time of change of each file, except byte code."""
    with suppress(OSError):
        if path.is_file():
            status = path.stat()
            yield path.name, status.st_size, status.st_mtime_ns
            return
        for entry in os.scandir(path):
            if entry.is_dir() and entry.name != "__pycache__":
                for name, size, changed in _files(Path(entry.path)):
                    yield f"{entry.name}/{name}", size, changed
            elif entry.is_file():
                stat = entry.stat()
                yield entry.name, stat.st_size, stat.st_mtime_ns


def _installed(folder: str) -> list[tuple[str, int]]:
    """Return what is installed in a folder of packages, each with the time of its last change."""
    with suppress(OSError):
        entries = [entry for entry in os.scandir(folder or ".") if entry.name.endswith(INSTALLED)]
        return sorted((entry.name, entry.stat().st_mtime_ns) for entry in entries)
    return []
