"""Who is told of new tables: plugins that implement the hook `board_finished`, and what ``--log-to`` names.

A package offers a destination for ``--log-to NAME:ADDRESS`` by an entry point NAME in the group
``imharness.listeners``: a function of the address that returns an object with a method `board_finished`, marked with
`hookimpl`. The function raises `Unavailable` or `UsageError` where nothing can be sent there, before anything runs.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from imharness.components.loading import GROUP as PLUGINS
from imharness.components.loading import load_plugins
from imharness.errors import UsageError, unknown_name
from imharness.reading.text import reason
from imharness.results.records import Board

GROUP = "imharness.listeners"
HOOK = "board_finished"


def open_listeners(wanted: Sequence[str]) -> dict[str, object]:
    """Return the listeners that ``--log-to`` names; raises `UsageError` for an unknown name, and what they raise."""
    points = {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}
    found: dict[str, object] = {}
    for text in wanted:
        name, _, address = text.partition(":")
        if name not in points:
            raise UsageError(unknown_name(f"--log-to: nothing is called {name!r}", name, sorted(points)))
        found[text] = points[name].load()(address)
    return found


def announce(
    store: str, boards: Sequence[Board], release: str | None, listeners: Mapping[str, object],
    warn: Callable[[str], None],
) -> None:  # fmt: skip
    """Tell every plugin with the hook, and these listeners, of new tables; `warn` gets a line for each that raises."""
    points = importlib.metadata.entry_points(group=PLUGINS)
    manager = load_plugins([point for point in points if may_listen(point.value)]).manager
    for name, listener in listeners.items():
        manager.register(listener, name=f"--log-to {name}")
    everyone = manager.get_plugins()
    listening = {impl.plugin_name: impl.plugin for impl in manager.hook.board_finished.get_hookimpls()}
    for name, plugin in sorted(listening.items()):
        call = manager.subset_hook_caller(HOOK, remove_plugins=everyone - {plugin})
        try:
            call(store=store, boards=tuple(boards), release=release)
        except (Exception, SystemExit) as error:
            warn(f"{name} could not take the tables: {type(error).__name__}: {reason(error)}")


def may_listen(module: str) -> bool:
    """Return whether a plugin module, or one of its package, can have the hook; imports nothing.

    A module is left out only where its source, or that of its whole package, does not name the hook.
    """
    top = module.partition(":")[0].partition(".")[0]
    spec = PathFinder.find_spec(top, sys.path)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = [file for folder in folders for file in Path(folder).rglob("*.py")]
    if spec is not None and not folders and spec.origin and spec.origin.endswith(".py"):
        files = [Path(spec.origin)]
    try:
        return not files or any(HOOK.encode() in file.read_bytes() for file in files)
    except OSError:  # a link to nothing, such as an editor makes beside an open file
        return True
